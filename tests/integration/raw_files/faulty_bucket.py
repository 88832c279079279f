"""A proxy in front of a bucket that answers wrongly, slowly or not at all when it is told to."""

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

When = Callable[[str, str], bool]
_CHUNK = 65_536
_PER_HOP = frozenset({"connection", "expect", "keep-alive", "transfer-encoding", "server", "date"})


class Fault(Enum):
    """An answer made up here (status and S3's code), or something done to the real one."""

    SLOW_DOWN = (503, "SlowDown")
    INTERNAL_ERROR = (500, "InternalError")
    TOO_MANY_REQUESTS = (429, "TooManyRequests")
    REQUEST_TIMEOUT = (400, "RequestTimeout")
    UNKNOWN_KEY = (403, "InvalidAccessKeyId")
    WRONG_SECRET = (403, "SignatureDoesNotMatch")
    ACCESS_DENIED = (403, "AccessDenied")
    EXPIRED_SESSION = (400, "ExpiredToken")
    WRONG_CLOCK = (403, "RequestTimeTooSkewed")
    NO_SUCH_BUCKET = (404, "NoSuchBucket")
    OTHER_REGION = (301, "PermanentRedirect")
    MOVED = (301, "")
    """A gateway's redirect, as from http to https."""
    OTHER_REFUSAL = (400, "InvalidArgument")
    GATEWAY_404 = (404, "")
    """A page without any code of S3: no word about the object."""
    WEB_PAGE = (200, "")
    """Well-formed XML, but no answer of a bucket."""
    EMPTY_ANSWER = "status 200, no ETag and no body"
    BROKEN_XML = "status 200 and a listing that breaks off, though its length is right"
    HANG = "no answer as long as the proxy lives"
    STALLED_BODY = "half of the body, then silence"
    TRUNCATED_BODY = "half of the body, then the end of the connection"
    DROPPED = "the end of the connection instead of an answer"


@dataclass
class _Armed:
    fault: Fault
    when: When
    after: int
    count: int


class FaultyBucket:
    """The proxy's address, what was asked of it, and the faults it is told to show."""

    def __init__(self, target_url: str) -> None:
        target = urlsplit(target_url)
        self.target = (target.hostname or "", target.port or 80)
        self.ended = threading.Event()
        self.requests: list[tuple[str, str]] = []
        """Method and path with query of everything that came in, also of what failed."""
        self._armed: list[_Armed] = []
        self._lock = threading.Lock()
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def fail_next(
        self, count: int, fault: Fault, when: When = lambda method, path: True, after: int = 0
    ) -> None:
        """Shows the fault to the next `count` requests that `when(method, path)` picks, `after` so many."""
        with self._lock:
            self._armed.append(_Armed(fault, when, after, count))

    def reset(self) -> None:
        """Forgets faults and requests."""
        with self._lock:
            self._armed.clear()
            self.requests.clear()

    def stop(self) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=10)

    def fault_of(self, method: str, path: str) -> Fault | None:
        """Notes the request down; the fault that it is to be shown."""
        with self._lock:
            self.requests.append((method, path))
            for armed in self._armed:
                if armed.count and armed.when(method, path):
                    if armed.after:
                        armed.after -= 1
                        continue
                    armed.count -= 1
                    return armed.fault
        return None


@contextmanager
def faulty_bucket(target_url: str) -> Iterator[FaultyBucket]:
    """The proxy for the length of a test; it has let go of every connection afterwards."""
    proxy = FaultyBucket(target_url)
    try:
        yield proxy
    finally:
        proxy.stop()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, proxy: FaultyBucket) -> None:
        self.proxy = proxy
        self.connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def server_close(self) -> None:
        super().server_close()
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        with suppress(OSError):
            super().finish()

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def _answer(self) -> None:
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = proxy.fault_of(self.command, self.path)
        if fault is Fault.HANG:
            proxy.ended.wait()
        if fault in (Fault.HANG, Fault.DROPPED):
            self.close_connection = True
        elif fault is Fault.EMPTY_ANSWER:
            self._send(200, b"")
        elif fault is Fault.BROKEN_XML:
            self._send(200, b"<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>raw/")
        elif fault is not None and isinstance(fault.value, tuple):
            self._send(fault.value[0], _made_up(*fault.value))
        else:
            with suppress(ConnectionError):
                self._relay(body, fault)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _answer

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _relay(self, body: bytes, fault: Fault | None) -> None:
        upstream = http.client.HTTPConnection(*self.server.proxy.target, timeout=30)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _PER_HOP:
                    upstream.putheader(name, value)
            upstream.endheaders(body)
            answer = upstream.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _PER_HOP:
                    self.send_header(name, value)
            self.end_headers()
            self._relay_body(answer, fault)
        finally:
            upstream.close()

    def _relay_body(self, answer: http.client.HTTPResponse, fault: Fault | None) -> None:
        if answer.length and fault in (Fault.STALLED_BODY, Fault.TRUNCATED_BODY):
            self.wfile.write(answer.read(answer.length // 2))
            if fault is Fault.STALLED_BODY:
                self.server.proxy.ended.wait()
            self.close_connection = True
            return
        while chunk := answer.read(_CHUNK):
            self.wfile.write(chunk)


def _made_up(status: int, code: str) -> bytes:
    if not code:
        return b"<html><head><title>Gateway</title></head><body>Sign in</body></html>"
    # Real servers quote the caller's key and the signed text in their errors.
    return (
        f"<Error><Code>{code}</Code><Message>QUOTEDKEY is refused</Message>"
        "<AWSAccessKeyId>QUOTEDKEY</AWSAccessKeyId><StringToSign>QUOTEDTEXT</StringToSign></Error>"
    ).encode()
