"""The local stack's front pages, served from a thread of the test process; and a network that takes notes."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpcore

from local_stack.front_pages.app import Seen, front_pages_server

USER_AGENT = "GranaryBot/1.0 (tests@granary.example)"


@dataclass(frozen=True)
class ServedSites:
    """`address` is what `local_test_sites` takes."""

    address: str
    seen: Seen


@contextmanager
def served_front_pages() -> Iterator[ServedSites]:
    """The sites, dripping every 20 ms; they are shut down afterwards."""
    seen = Seen()
    server, bound = front_pages_server(seen, 0, drip_seconds=0.02)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        yield ServedSites(f"127.0.0.1:{bound.getsockname()[1]}", seen)
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        bound.close()


class NotingNetwork(httpcore.NetworkBackend):
    """Notes the addresses it is asked to connect to, and connects to one on loopback in their place.

    Addresses in `dead` refuse the connection.
    """

    def __init__(self, loopback: str, dead: Iterable[str] = ()) -> None:
        host, _, port = loopback.removeprefix("http://").rpartition(":")
        self._loopback = host, int(port)
        self._dead = set(dead)
        self.asked: list[tuple[str, int]] = []

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        self.asked.append((host, port))
        if host in self._dead:
            raise httpcore.ConnectError("refused")
        return httpcore.SyncBackend().connect_tcp(*self._loopback, timeout=timeout)
