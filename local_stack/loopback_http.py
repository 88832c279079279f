"""One plain HTTP request to a service of ours, past any proxy; HTTP libraries take long to import."""

import http.client

from local_stack.ports import LOOPBACK


def answer(port: int, path: str, method: str = "GET", timeout: float = 2) -> tuple[int, bytes]:
    """Status and body. Raises OSError or http.client.HTTPException; `timeout` in seconds."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=timeout)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def expect_ok(port: int, path: str, method: str = "GET") -> bytes:
    """The body of a 200. Raises http.client.HTTPException for any other status, and as `answer` does."""
    status, body = answer(port, path, method)
    if status != http.HTTPStatus.OK:
        raise http.client.HTTPException(f"{method} {path} answered {status}")
    return body
