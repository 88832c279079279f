"""A TCP server on loopback that answers each HTTP request with whatever bytes a test scripts."""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Script = Callable[["ScriptedServer", str], Iterator[bytes]]


class ScriptedServer:
    """`requests` holds what was received: head and body as text. `ended` is set when the test is over."""

    def __init__(self, script: Script) -> None:
        self.requests: list[str] = []
        self.ended = threading.Event()
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def stop(self) -> None:
        self.ended.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(timeout=10)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                thread = threading.Thread(target=self._answer, args=(connection,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(10)
            request = _read_request(connection)
            self.requests.append(request)
            for chunk in self._script(self, request):
                connection.sendall(chunk)


def _read_request(connection: socket.socket) -> str:
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = connection.recv(65_536)
        if not chunk:
            raise ConnectionResetError
        received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head.lower())
    while length and len(body) < int(length[1]):
        chunk = connection.recv(65_536)
        if not chunk:
            raise ConnectionResetError
        body += chunk
    return (head + b"\r\n\r\n" + body).decode("utf-8", "replace")


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    """A whole answer after which the connection is closed; `content_type="…"` names a header."""
    lines = [f"HTTP/1.1 {status} Scripted", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


@contextmanager
def scripted(script: Script) -> Iterator[ScriptedServer]:
    """A server for the length of a test; its threads have ended afterwards."""
    server = ScriptedServer(script)
    try:
        yield server
    finally:
        server.stop()


def always(*chunks: bytes) -> Script:
    """The same answer to every request."""
    return lambda server, request: iter(chunks)


def unused_address() -> str:
    """An address on loopback where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"127.0.0.1:{taken.getsockname()[1]}"
