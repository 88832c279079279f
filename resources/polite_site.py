"""Fetches pages of one configured site: permission, pace, time-outs and size limits in one place.

The rules are those of assets/economy_news/README.md: robots.txt is obeyed, at most
one request per interval over all runs, 403 and 429 pause the host. It connects to the configured
host only: a redirect elsewhere is handed back, never followed.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

import dagster as dg
import httpx
import psycopg
from pydantic import Field

from resources import host_pace
from resources.errors import CrawlNotAllowed, FetchFailed, HostPaused, ServiceNotConfigured

if TYPE_CHECKING:
    from protego import Protego

MAX_PAGE_BYTES = 5_000_000
MAX_REDIRECTS = 3
GONE_STATUSES = frozenset({404, 410})
REFUSED_STATUSES = frozenset({403, 429})


@dataclass(frozen=True)
class Page:
    """An answer with status 200, 404 or 410, or a redirect that leaves the site (`leaves_to`)."""

    url: str
    status: int
    body: bytes
    leaves_to: str | None = None


@dataclass(frozen=True)
class Politeness:
    """How one site is treated; times in seconds."""

    contact: str
    timeout: float
    min_interval: float
    sleep_min: float
    sleep_max: float
    permission: str | None = None
    """A publisher's written leave; with it a disallow of robots.txt does not count."""


class SiteResource(dg.ConfigurableResource):
    """A site that is crawled, with the manners that the operator set."""

    base_url: str = Field(default="", description="NAVER_BASE_URL; empty: nothing is crawled.")
    contact: str = Field(description="CRAWL_CONTACT: stands in the user agent, for the publisher.")
    timeout_ms: int = Field(default=8_000, description="Of one request.")
    min_interval_ms: int = Field(
        default=1_000, description="Between two requests to the host, over all runs together."
    )
    sleep_min_ms: int = Field(default=250, description="The least that is waited beyond the interval.")
    sleep_max_ms: int = Field(default=700, description="The most; each wait is drawn between the two.")

    @property
    def host(self) -> str:
        """Host and port, as the pace and the pauses know the site."""
        return urlsplit(self.base_url).netloc

    @contextmanager
    def open(self, connection: psycopg.Connection, permission: str | None) -> Iterator["PoliteSite"]:
        """The site for the length of a run. Raises ServiceNotConfigured without an address."""
        if not self.base_url:
            raise ServiceNotConfigured(
                "NAVER_BASE_URL is not set: `make up` starts a stand-in and `. .local/env` names it; "
                "the real site needs the publisher's leave in CRAWL_PERMISSION"
            )
        politeness = Politeness(
            contact=self.contact,
            timeout=self.timeout_ms / 1000,
            min_interval=self.min_interval_ms / 1000,
            sleep_min=self.sleep_min_ms / 1000,
            sleep_max=self.sleep_max_ms / 1000,
            permission=permission,
        )
        site = PoliteSite(self.base_url, politeness, connection)
        try:
            yield site
        finally:
            site.close()


class PoliteSite:
    """One site, for the length of a run. `sleep` is passed in so that tests need not wait."""

    def __init__(
        self,
        base_url: str,
        politeness: Politeness,
        connection: psycopg.Connection,
        sleep: Callable[[float], None] = time.sleep,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.base_url = base_url
        self.host = urlsplit(base_url).netloc
        self.user_agent = f"GranaryBot/1.0 ({politeness.contact})"
        self._politeness = politeness
        self._connection = connection
        self._sleep = sleep
        self._robots: Protego | None = None
        self._client = httpx.Client(
            headers={"User-Agent": self.user_agent, "Accept-Language": "ko"},
            timeout=politeness.timeout,
            follow_redirects=False,
            trust_env=False,
            transport=transport,
        )

    def close(self) -> None:
        self._client.close()

    def get(self, path: str) -> Page:
        """The page at `path` (with query) of the site.

        Raises CrawlNotAllowed (robots.txt), HostPaused (403, 429, or paused before) and FetchFailed
        (other statuses, time-out, no connection, more than MAX_PAGE_BYTES).
        """
        return self._follow(self.base_url + path, self._ask_robots)

    def _follow(self, url: str, ask_before: Callable[[str], None]) -> Page:
        """The page at the end of the redirects inside the site; `ask_before` may refuse each address."""
        for _ in range(MAX_REDIRECTS + 1):
            ask_before(url)
            status, body, location = self._request(url)
            if location is None:
                return Page(url, status, body)
            try:
                url = urljoin(url, location)
                leaves = urlsplit(url).netloc != self.host
            except ValueError:
                raise FetchFailed(f"status {status} with an unreadable Location") from None
            if leaves:
                return Page(url, status, b"", leaves_to=url)
        raise FetchFailed(f"more than {MAX_REDIRECTS} redirects")

    def _ask_robots(self, url: str) -> None:
        if self._robots is None:
            self._robots = self._read_robots()
        if not self._robots.can_fetch(url, self.user_agent) and self._politeness.permission is None:
            raise CrawlNotAllowed(
                f"robots.txt of {self.host} disallows {urlsplit(url).path}: crawling needs the publisher's "
                "leave, named in CRAWL_PERMISSION as `reference; holder; expiry date`"
            )

    def _read_robots(self) -> "Protego":
        from protego import Protego

        try:
            page = self._follow(f"{self.base_url}/robots.txt", lambda url: None)
            if page.leaves_to:
                raise FetchFailed(f"it has moved to {page.leaves_to}")
        except FetchFailed as error:
            raise CrawlNotAllowed(
                f"robots.txt of {self.host} cannot be read ({error}): no crawl until it can"
            ) from None
        # RFC 9309: no robots.txt (404, 410) allows everything. A byte order mark would hide the first line.
        return Protego.parse("" if page.status in GONE_STATUSES else page.body.decode("utf-8-sig", "replace"))

    def _request(self, url: str) -> tuple[int, bytes, str | None]:
        """Status, body, and the Location of a redirect."""
        self._wait_for_slot()
        deadline = time.monotonic() + self._politeness.timeout
        try:
            with self._client.stream("GET", url) as response:
                if response.has_redirect_location:
                    return response.status_code, b"", response.headers["location"]
                if response.status_code in REFUSED_STATUSES:
                    self._pause(response.status_code)
                if response.status_code != 200 and response.status_code not in GONE_STATUSES:
                    raise FetchFailed(f"status {response.status_code}")
                return response.status_code, _read_body(response, deadline), None
        except httpx.TimeoutException:
            raise FetchFailed(f"no answer within {self._politeness.timeout:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise FetchFailed(f"{type(error).__name__}: {str(error)[:200]}") from None

    def _wait_for_slot(self) -> None:
        politeness = self._politeness
        # The random pause is part of the slot: slept on top of it, two requests could come closer than the
        # interval, by the difference of their pauses.
        interval = politeness.min_interval + random.uniform(politeness.sleep_min, politeness.sleep_max)
        wait = host_pace.seconds_until_slot(self._connection, self.host, interval)
        if wait is None:
            until, reason = host_pace.paused_until(self._connection, self.host) or (None, "refused")
            raise HostPaused(f"{self.host} is left alone until {until}: {reason}")
        self._sleep(wait)

    def _pause(self, status: int) -> None:
        reason = f"it answered {status}"
        host_pace.pause(self._connection, self.host, reason)
        raise HostPaused(f"{self.host} {reason} and is left alone for {host_pace.PAUSE_HOURS} hours")


def _read_body(response: httpx.Response, deadline: float) -> bytes:
    """The decompressed body. httpx's own time-out is per read, so the total is watched here."""
    body = bytearray()
    # As it arrives: chunks of a given size would be waited for, however slowly a site drips.
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > MAX_PAGE_BYTES:
            raise FetchFailed(f"the page is larger than {MAX_PAGE_BYTES:,} bytes")
        if time.monotonic() > deadline:
            raise FetchFailed("the page did not end within the time-out")
    return bytes(body)
