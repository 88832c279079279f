"""Connections that go to checked addresses only, and one deadline over everything that happens on them.

All of it sits in the network backend that httpcore is given: whatever asks it for a connection gets a
checked one. No proxy is used, since a proxy would resolve the name a second time.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any

import httpcore

from resources.errors import FetchFailed
from resources.fetch_errors import FetchRefused
from resources.public_addresses import LocalTestSites, Lookup, public_addresses
from resources.web_address import DEFAULT_PORTS, WebAddress

_MOST_ADDRESSES_TRIED = 4


class Deadline:
    """A budget of seconds that is spent only inside `running()`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._left = seconds
        self._ends = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        self._ends = time.monotonic() + self._left
        try:
            yield
        finally:
            self._left = self._ends - time.monotonic()

    def left(self) -> float:
        """Seconds, more than 0. Raises FetchFailed when none is left."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise self.passed()
        return left

    def passed(self) -> FetchFailed:
        """The failure to raise when it has passed."""
        return FetchFailed(f"no whole answer within {self._seconds:g} s")


@dataclass(frozen=True)
class Guard:
    """Who is asked for addresses, what stands in for `.test`, and by which means it is connected."""

    lookup: Lookup
    local_test_sites: LocalTestSites
    tls: SSLContext
    network: httpcore.NetworkBackend


@contextmanager
def answer_from(
    address: WebAddress, headers: dict[str, str], guard: Guard, deadline: Deadline, max_wire_bytes: int
) -> Iterator[httpcore.Response]:
    """The answer to a GET: its head has come, its body is yet to be read. The connection is closed after it.

    Raises FetchRefused for a port other than 80 and 443 and an address that is not public, FetchFailed for
    the rest; so does reading the body.
    """
    backend = _CheckedBackend(guard, deadline, max_wire_bytes)
    url = httpcore.URL(
        scheme=address.scheme.encode(),
        host=address.host.encode(),
        port=address.port,
        target=address.target.encode(),
    )
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    try:
        with (
            httpcore.ConnectionPool(ssl_context=guard.tls, network_backend=backend) as pool,
            pool.stream("GET", url, headers=sent) as response,
        ):
            yield response
    except httpcore.TimeoutException:
        raise deadline.passed() from None
    except (httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise FetchFailed(f"{type(error).__name__}: {str(error)[:200]}") from None


class _CheckedBackend(httpcore.NetworkBackend):
    def __init__(self, guard: Guard, deadline: Deadline, max_wire_bytes: int) -> None:
        self._guard = guard
        self._deadline = deadline
        self._max_wire_bytes = max_wire_bytes

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        sites = self._guard.local_test_sites
        if sites.covers(host):
            addresses = [sites.connect_to()]
        else:
            if port not in DEFAULT_PORTS.values():
                raise FetchRefused(f"port {port} is not asked")
            found = public_addresses(host, port, self._deadline.left(), self._guard.lookup)
            addresses = [(address, port) for address in found[:_MOST_ADDRESSES_TRIED]]
        return _GuardedStream(self._first_to_answer(addresses), self._deadline, self._max_wire_bytes)

    def _first_to_answer(self, addresses: list[tuple[str, int]]) -> httpcore.NetworkStream:
        """Each address gets an equal share of the time that is left, so that a silent one leaves some."""
        for untried in range(len(addresses), 1, -1):
            try:
                return self._connect(addresses[-untried], self._deadline.left() / untried)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return self._connect(addresses[-1], self._deadline.left())

    def _connect(self, address: tuple[str, int], seconds: float) -> httpcore.NetworkStream:
        return self._guard.network.connect_tcp(*address, timeout=seconds)


class _GuardedStream(httpcore.NetworkStream):
    """Clamps every wait to what is left, so that drops that come in time do not add up past the deadline."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline, max_wire_bytes: int) -> None:
        self._stream = stream
        self._deadline = deadline
        self._max_wire_bytes = max_wire_bytes
        self._received = 0

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        received = self._stream.read(max_bytes, self._deadline.left())
        # Headers, chunk sizes and empty compressed blocks count for no body, yet can come without end.
        self._received += len(received)
        if self._received > self._max_wire_bytes:
            raise FetchRefused(f"it sends more than {self._max_wire_bytes:,} bytes")
        return received

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.left())

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        secured = self._stream.start_tls(ssl_context, server_hostname, self._deadline.left())
        return _GuardedStream(secured, self._deadline, self._max_wire_bytes)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
