"""The one way out for addresses that came from data: domains in files, recipe URLs, redirects.

Whatever is asked here may have been written by someone who wants us to ask it. So each hop is checked
after its name is resolved and goes to the checked address, on port 80 or 443; one deadline bounds the
whole, and no body is unfolded beyond its cap. The rules are those of the promises, section "Security".
"""

import re
import ssl
import threading
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from resources.bounded_body import ACCEPT_ENCODING, read_body
from resources.errors import FetchFailed
from resources.fetch_errors import AnsweredBadly as AnsweredBadly
from resources.fetch_errors import FetchRefused as FetchRefused
from resources.public_addresses import LocalTestSites, Lookup, system_lookup
from resources.web_address import WebAddress, parse

if TYPE_CHECKING:
    import httpcore

    from resources.guarded_connection import Deadline

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
ANY_TYPE = frozenset({"*/*"})

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CHARSET = re.compile(r"""charset\s*=\s*["']?([\w.:+-]{1,40})""", re.IGNORECASE)


@dataclass(frozen=True)
class FetchedPage:
    """An answer with a status of 200 to 299, `url` being where the redirects ended.

    `content_type` is lower-case and bare, `charset` as the header names it. `truncated`: the body is the
    beginning of a longer one.
    """

    url: str
    status: int
    content_type: str
    charset: str | None
    body: bytes
    truncated: bool


class GuardedFetcher:
    """Fetches pages, from any number of threads; each host is asked one thing at a time.

    `tls` and `network` are for tests: which certificates are trusted, by what means it is connected.
    """

    def __init__(
        self,
        user_agent: str,
        *,
        deadline_seconds: float = 10.0,
        max_body_bytes: int = 1_000_000,
        max_redirects: int = 5,
        local_test_sites: str = "",
        resolve: Lookup = system_lookup,
        tls: ssl.SSLContext | None = None,
        network: "httpcore.NetworkBackend | None" = None,
    ) -> None:
        import httpcore

        from resources.guarded_connection import Guard

        self.user_agent = user_agent
        self._deadline_seconds = deadline_seconds
        self._max_body_bytes = max_body_bytes
        self._max_redirects = max_redirects
        self._guard = Guard(
            lookup=resolve,
            local_test_sites=LocalTestSites(local_test_sites),
            tls=tls or httpcore.default_ssl_context(),
            network=network or httpcore.SyncBackend(),
        )
        self._turns = _Turns()
        self._closed = False

    def close(self) -> None:
        """No further fetch is begun; those under way end by their deadline."""
        self._closed = True

    def get(
        self,
        url: str,
        *,
        accepted_types: Collection[str] = HTML_TYPES,
        max_body_bytes: int | None = None,
        ask_before: Callable[[str], None] | None = None,
    ) -> FetchedPage:
        """The page that `url` leads to, its body cut at `max_body_bytes` (of the fetcher by default).

        `ask_before` is called with the address of each hop, outside the deadline, and may raise. Raises
        FetchRefused (permanent), AnsweredBadly (another status than 200 to 299) and FetchFailed.
        """
        from resources.guarded_connection import Deadline

        deadline = Deadline(self._deadline_seconds)
        limit = self._max_body_bytes if max_body_bytes is None else max_body_bytes
        address = parse(url)
        for _ in range(self._max_redirects + 1):
            if ask_before is not None:
                ask_before(address.url)
            # The wait for one's turn costs no time of the deadline: others spend it.
            with self._turns.of(address.host), deadline.running():
                answer = self._ask(address, accepted_types, limit, deadline)
            if isinstance(answer, FetchedPage):
                return answer
            address = answer
        raise FetchRefused(f"more than {self._max_redirects} redirects")

    def _ask(
        self, address: WebAddress, accepted_types: Collection[str], limit: int, deadline: "Deadline"
    ) -> FetchedPage | WebAddress:
        """The page, or where it is redirected to."""
        from resources.guarded_connection import answer_from

        if self._closed:
            raise RuntimeError("the fetcher is closed")
        if address.scheme == "https" and self._guard.local_test_sites.covers(address.host):
            raise FetchFailed("ConnectError: the local test sites speak no TLS")
        headers = {
            "Host": address.authority,
            "User-Agent": self.user_agent,
            "Accept": ", ".join(sorted(accepted_types)),
            "Accept-Encoding": ACCEPT_ENCODING,
            "Connection": "close",
        }
        with answer_from(address, headers, self._guard, deadline, 2 * limit + 1_000_000) as response:
            location = _header(response, b"location")
            if response.status in _REDIRECTS and location:
                return address.joined(location)
            if not 200 <= response.status <= 299:
                raise AnsweredBadly(response.status)
            kind, charset = _content_type(response, accepted_types)
            # Each read is clamped to the deadline, so that its chunks need no check of their own.
            encoding = _header(response, b"content-encoding")
            body, truncated = read_body(response.iter_stream(), encoding, limit)
            return FetchedPage(address.url, response.status, kind, charset, body, truncated)


class GuardedFetchResource(dg.ConfigurableResource):
    """The guarded fetch, with the contact that hosts are shown."""

    contact: str = Field(description="CRAWL_CONTACT: stands in the user agent that hosts are shown.")
    local_test_sites: str = Field(
        default="", description="Address of local_stack/front_pages, like 127.0.0.1:8123; empty: none."
    )

    @contextmanager
    def open(self) -> Iterator[GuardedFetcher]:
        """A fetcher for the length of a run. Raises ValueError for test sites that are not on loopback."""
        fetcher = GuardedFetcher(f"GranaryBot/1.0 ({self.contact})", local_test_sites=self.local_test_sites)
        try:
            yield fetcher
        finally:
            fetcher.close()


class _Turns:
    """One lock a host, kept only while somebody holds or awaits it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: weakref.WeakValueDictionary[str, threading.Lock] = weakref.WeakValueDictionary()

    @contextmanager
    def of(self, host: str) -> Iterator[None]:
        with self._guard:
            lock = self._locks.get(host)
            if lock is None:
                lock = self._locks[host] = threading.Lock()
        with lock:
            yield


def _header(response: "httpcore.Response", name: bytes) -> str:
    """The first header of that name; empty without one. Raw UTF-8, as some write in Location, is read."""
    for found, value in response.headers:
        if found.lower() == name:
            try:
                return value.decode()
            except UnicodeDecodeError:
                return value.decode("latin-1")
    return ""


def _content_type(response: "httpcore.Response", accepted_types: Collection[str]) -> tuple[str, str | None]:
    header = _header(response, b"content-type")
    kind = header.partition(";")[0].strip().lower()
    if kind not in accepted_types and "*/*" not in accepted_types:
        raise FetchRefused(f"the content type is {kind[:80]!r}")
    charset = _CHARSET.search(header)
    return kind, charset[1] if charset else None
