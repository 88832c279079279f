"""The HTTP door, served over the wire from a thread of the demo's process, by the environment's settings."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from local_stack.ports import LOOPBACK

if TYPE_CHECKING:
    import httpx

_STOPS_WITHIN_SECONDS = 10


@contextmanager
def served_door() -> Iterator["httpx.Client"]:
    """A client that shows API_TOKEN, of a door that ends with the block."""
    import httpx
    import uvicorn

    from api.app import app

    # log_config None: the demo's own logging stays as it is.
    config = uvicorn.Config(app(), log_config=None, access_log=False, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    with socket.create_server((LOOPBACK, 0)) as bound:
        # The socket listens already: a request that comes before the server's loop waits in its queue.
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, name="door", daemon=True)
        thread.start()
        try:
            with httpx.Client(
                base_url=f"http://{LOOPBACK}:{bound.getsockname()[1]}",
                headers={"Authorization": f"Bearer {os.environ['API_TOKEN']}"},
                timeout=30,
                trust_env=False,  # past any proxy
            ) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join(_STOPS_WITHIN_SECONDS)
