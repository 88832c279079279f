"""What robots.txt of any origin lets us ask, after RFC 9309, through the guarded fetch."""

import re
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from resources.errors import CrawlNotAllowed
from resources.guarded_fetch import ANY_TYPE, AnsweredBadly, GuardedFetcher
from resources.web_address import parse

if TYPE_CHECKING:
    from protego import Protego

MAX_ROBOTS_BYTES = 500_000
_MOST_KEPT = 1_000

_USER_AGENT_LINE = re.compile(r"\s*user(?:-|\s+)?agent\b[\s:]*([\w-]*\*?)", re.IGNORECASE)
_PRODUCT = re.compile(r"[A-Za-z_-]+")


class Robots:
    """The robots.txt files of a run, each read once. Usable from any number of threads."""

    def __init__(self, fetcher: GuardedFetcher) -> None:
        product = _PRODUCT.match(fetcher.user_agent)
        if product is None:
            raise ValueError("a user agent begins with a product name")
        self._product = product[0]
        self._fetcher = fetcher
        self._kept: OrderedDict[str, Protego] = OrderedDict()
        self._guard = threading.Lock()

    def may_fetch(self, url: str) -> bool:
        """Whether robots.txt of the address's origin allows it; without one (4xx) all is allowed.

        Raises FetchFailed if it answers 5xx or cannot be reached, and FetchRefused as the fetch does: what
        cannot be read allows nothing.
        """
        address = parse(url)
        with self._guard:
            rules = self._kept.get(address.origin)
        if rules is None:
            rules = self._read(address.origin)
            with self._guard:
                self._kept[address.origin] = rules
                if len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
        return rules.can_fetch(address.url, self._product)

    def require(self, url: str) -> None:
        """Raises CrawlNotAllowed where `may_fetch` is false; fits `GuardedFetcher.get(ask_before=…)`."""
        if not self.may_fetch(url):
            raise CrawlNotAllowed(f"robots.txt of {parse(url).host} disallows it")

    def _read(self, origin: str) -> "Protego":
        from protego import Protego

        try:
            page = self._fetcher.get(
                f"{origin}/robots.txt", accepted_types=ANY_TYPE, max_body_bytes=MAX_ROBOTS_BYTES
            )
        except AnsweredBadly as answer:
            if not 400 <= answer.status <= 499:
                raise
            return Protego.parse("")
        # A byte order mark would hide the first line; a last line that was cut off could say too much.
        body = page.body.rpartition(b"\n")[0] if page.truncated else page.body
        return Protego.parse(rules_for(self._product, body.decode("utf-8-sig", "replace")))


def rules_for(product: str, text: str) -> str:
    """The text with every group that is not for this product or for all put under one other name.

    Protego stores each rule once for each name of its group: thousands of names before thousands of rules,
    which fit into 500 kB, would cost gigabytes.
    """
    lines = []
    for line in text.splitlines():
        named = _USER_AGENT_LINE.match(line)
        if named:
            token = _PRODUCT.match(named[1])
            name = token[0] if token else named[1]
            line = f"User-agent: {name if name.lower() in ('*', product.lower()) else 'another-robot'}"
        lines.append(line)
    return "\n".join(lines)
