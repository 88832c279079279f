"""The local stack's stand-ins, served from a thread of the test process and steered over HTTP."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from local_stack.front_pages.app import Seen, front_pages_server
from local_stack.naver_site.app import site_server
from local_stack.naver_site.state import SiteState
from local_stack.openai_stand_in.app import create_app as create_openai
from local_stack.openai_stand_in.state import StandInState
from local_stack.recipe_api.app import api_server
from local_stack.recipe_api.state import ApiState


class StandIn:
    """A served stand-in: its address and its `/_control` routes."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, timeout=30)

    def get(self, what: str, **query: Any) -> Any:
        """The JSON of `GET /_control/<what>`."""
        return self._http.get(f"/_control/{what}", params=query).raise_for_status().json()

    def post(self, what: str, **body: Any) -> Any:
        """The JSON of `POST /_control/<what>`."""
        return self._http.post(f"/_control/{what}", json=body).raise_for_status().json()

    def delete(self, what: str) -> None:
        """`DELETE /_control/<what>`."""
        self._http.delete(f"/_control/{what}").raise_for_status()

    def fault(self, **fault: Any) -> None:
        """Arms a fault."""
        self.post("faults", **fault)

    def clear_faults(self) -> None:
        """Forgets every fault."""
        self.delete("faults")


@contextmanager
def openai_stand_in(data_dir: Path) -> Iterator[StandIn]:
    """The OpenAI stand-in; its API is below `<url>/v1`."""
    state = StandInState(data_dir, batch_seconds=0.1)
    bound = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        create_openai(state), log_level="warning", access_log=False, timeout_graceful_shutdown=1
    )
    with _served(uvicorn.Server(config), bound) as url:
        yield StandIn(url)
    state.close()


@contextmanager
def naver_site() -> Iterator[StandIn]:
    """The news site."""
    with _served(*site_server(SiteState(), 0)) as url:
        yield StandIn(url)


@contextmanager
def front_pages() -> Iterator[StandIn]:
    """The front pages of the invented .test domains."""
    with _served(*front_pages_server(Seen(), 0)) as url:
        yield StandIn(url)


@contextmanager
def recipe_api() -> Iterator[StandIn]:
    """The open API of recipes; its faults are posted as `fault`."""
    with _served(*api_server(ApiState(), 0)) as url:
        yield StandIn(url)


@contextmanager
def _served(server: uvicorn.Server, bound: socket.socket) -> Iterator[str]:
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    # The socket listens already: a request that comes before the server loop waits in its queue.
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        bound.close()
