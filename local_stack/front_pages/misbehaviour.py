"""Hosts that misbehave, each in one way. What each does is listed in `MISBEHAVING`."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from functools import cache

from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from local_stack.front_pages.pages import front_page, page_without_head
from local_stack.front_pages.sites import DISALLOWED, SITES

HTML = "text/html; charset=utf-8"
BOMB_BYTES = 200_000_000
_HEADER_BYTES = 400_000
_KOREAN, _JAPANESE = SITES["hanbit-news.test"], SITES["asagiri-times.test"]

_REDIRECTS: Mapping[str, tuple[str, str]] = {
    "redirect-loopback.test": ("http://127.0.0.1/secret", "redirects to 127.0.0.1"),
    "redirect-localhost.test": ("http://localhost/secret", "redirects to localhost"),
    "redirect-metadata.test": ("http://169.254.169.254/latest/meta-data/", "redirects to 169.254.169.254"),
    "redirect-loopback6.test": ("http://[::1]/secret", "redirects to ::1"),
    "redirect-mapped.test": ("http://[::ffff:127.0.0.1]/secret", "redirects to IPv4 loopback in IPv6"),
    "redirect-zero.test": ("http://0.0.0.0/secret", "redirects to 0.0.0.0"),
    "redirect-decimal.test": ("http://2130706433/secret", "redirects to 127.0.0.1 as one number"),
    "redirect-octal.test": ("http://0177.0.0.1/secret", "redirects to 127.0.0.1 in octal"),
    "redirect-file.test": ("file:///etc/hostname", "redirects to a file"),
    "redirect-broken.test": ("http://[::1/", "redirects to what is no address"),
    "redirect-other.test": ("http://hanbit-news.test/", "redirects to a good site"),
    "redirect-disallowed.test": (f"http://{DISALLOWED}/", "redirects to the site that disallows robots"),
    "redirect-loop.test": ("/", "redirects to itself"),
}
_LONG_WAY = "redirect-forty.test"
_HOPS = 40


def _page(body: str | bytes, content_type: str = HTML, status: int = 200, **headers: str) -> Response:
    content = body.encode() if isinstance(body, str) else body
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(content, status, headers={"content-type": content_type, **names})


def _in(encoding: str, declared: bool) -> Response:
    site = _KOREAN if encoding == "cp949" else _JAPANESE
    text = front_page(site, {"cp949": "euc-kr"}.get(encoding, encoding) if declared else None)
    return _page(text.encode(encoding, "xmlcharrefreplace"), "text/html")


@cache
def _bomb() -> bytes:
    """Zeros, squeezed block by block: 200 MB become 200 KB, and never stand in memory here either."""
    squeezer = zlib.compressobj(9, wbits=31)
    block = bytes(1_000_000)
    squeezed = [squeezer.compress(block) for _ in range(BOMB_BYTES // len(block))]
    return b"".join(squeezed) + squeezer.flush()


_ANSWERS: Mapping[str, tuple[Callable[[], Response], str]] = {
    "bomb.test": (lambda: _page(_bomb(), content_encoding="gzip"), "200 MB of zeros in 200 KB of gzip"),
    "brotli.test": (lambda: _page(b"\x0b\x02\x80", content_encoding="br"), "an encoding nobody asked for"),
    "not-gzip.test": (lambda: _page("<title>x</title>", content_encoding="gzip"), "HTML that claims gzip"),
    "large.test": (lambda: _page(front_page(_KOREAN) + " " * 3_000_000), "3 MB behind a good head"),
    "binary.test": (lambda: _page(bytes(range(256)) * 200), "bytes 0 to 255 as HTML"),
    "image.test": (lambda: _page(b"\x89PNG\r\n\x1a\n", "image/png"), "an image"),
    "untyped.test": (lambda: Response(b"<title>x</title>"), "no Content-Type"),
    "cp949.test": (lambda: _in("cp949", declared=True), "Korean in cp949 that a meta calls euc-kr"),
    "cp949-undeclared.test": (lambda: _in("cp949", declared=False), "Korean in cp949, declared nowhere"),
    "sjis.test": (lambda: _in("shift_jis", declared=True), "Japanese in Shift_JIS"),
    "sjis-undeclared.test": (
        lambda: _in("shift_jis", declared=False),
        "Japanese in Shift_JIS, declared nowhere",
    ),
    "headless.test": (lambda: _page(page_without_head(_KOREAN)), "a page without a head"),
    "missing.test": (lambda: _page("<title>Not found</title>", status=404), "404"),
    "down.test": (lambda: _page("<title>Down</title>", status=503), "503"),
    "large-header.test": (lambda: _page("", x_large="x" * _HEADER_BYTES), "a header of 400 KB"),
}

_ROBOTS_STATUS: Mapping[str, tuple[int, str]] = {
    "robots-down.test": (503, "robots.txt answers 503, the page is good"),
    "robots-missing.test": (404, "robots.txt answers 404, the page is good"),
}

_SLOW: Mapping[str, str] = {
    "endless.test": "a body without end, as fast as it is taken",
    "drip-body.test": "a body of one byte at a time",
    "drip-headers.test": "headers without end, a line at a time",
    "hang.test": "takes the request and says nothing",
    "cut-short.test": "ends in the middle of the body it announced",
}

MISBEHAVING: Mapping[str, str] = {
    **{host: what for host, (_, what) in _REDIRECTS.items()},
    _LONG_WAY: f"{_HOPS} redirects, then a good page",
    **{host: what for host, (_, what) in _ANSWERS.items()},
    **{host: what for host, (_, what) in _ROBOTS_STATUS.items()},
    **_SLOW,
}
"""Host → what it does."""


def robots_status(host: str) -> int:
    return _ROBOTS_STATUS.get(host, (200, ""))[0]


def quick_answer(host: str, path: str) -> Response | None:
    """The answer of a host that needs no patience; None where the host is none of them."""
    if host in _REDIRECTS:
        return RedirectResponse(_REDIRECTS[host][0], 302)
    if host == _LONG_WAY:
        hop = int(path.strip("/")) if path.strip("/").isdecimal() else 0
        return RedirectResponse(f"/{hop + 1}", 301) if hop < _HOPS else _page(front_page(_KOREAN))
    if host in _ANSWERS:
        return _ANSWERS[host][0]()
    return _page(front_page(_KOREAN)) if host in _ROBOTS_STATUS else None


async def slow_answer(host: str, drip_seconds: float, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers for a host of `_SLOW` until the client leaves; a stranger's host gets 404."""
    if host not in _SLOW:
        await PlainTextResponse("no such site", 404)(scope, receive, send)
        return
    left = asyncio.create_task(_until_disconnect(receive))
    try:
        if host == "drip-headers.test":
            await _drip_headers(scope, drip_seconds, left)
        elif host == "cut-short.test":
            await _start(send, (b"content-length", b"100000"))
            await send({"type": "http.response.body", "body": b"<title>cut", "more_body": True})
        elif host != "hang.test":
            await _start(send)
            chunks = _chunks(drip_seconds, left) if host == "drip-body.test" else _chunks(0, left)
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        else:
            await left
    finally:
        left.cancel()


async def _start(send: Send, *headers: tuple[bytes, bytes]) -> None:
    named = [(b"content-type", HTML.encode()), *headers]
    await send({"type": "http.response.start", "status": 200, "headers": named})


async def _chunks(drip_seconds: float, left: asyncio.Task[None]) -> AsyncIterator[bytes]:
    while not left.done():
        yield b" " if drip_seconds else b"<p>never the end</p>\n" * 1000
        await asyncio.sleep(drip_seconds)


async def _drip_headers(scope: Scope, drip_seconds: float, left: asyncio.Task[None]) -> None:
    """Past ASGI, which sends all headers at once: written to the connection itself."""
    transport: asyncio.Transport = scope["state"]["transport"]
    transport.write(b"HTTP/1.1 200 OK\r\n")
    number = 0
    while not left.done() and not transport.is_closing():
        number += 1
        transport.write(b"X-Drip-%d: 1\r\n" % number)
        await asyncio.sleep(drip_seconds)
    transport.abort()


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
