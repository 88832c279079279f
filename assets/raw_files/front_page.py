"""What a site says of itself in the head of its front page (contract, "Domain metadata").

Belongs here: what the elements mean. Not here: the encoding (`page_encoding.py`) and the fetch.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias
from urllib.parse import urljoin, urlsplit

from lxml import etree  # type: ignore[import-untyped]

from assets.raw_files.page_encoding import decode_page

Element: TypeAlias = Any  # lxml ships no types

MAX_TITLE = 300
MAX_TEXT = 1_000
MAX_URL = 2_048
MAX_OPEN_GRAPH = 20
MAX_FEEDS = 10

# So many elements of a kind are looked at; more are no head, but someone who wants us to read for long.
_MOST_ELEMENTS = 2_000
_FEED_TYPES = frozenset({"application/rss+xml", "application/atom+xml"})
_UNPRINTABLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u200b\ufeff\ufffe\uffff\ud800-\udfff]")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z0-9]{1,8}){0,4}", re.IGNORECASE)
_OPEN_GRAPH_NAME = re.compile(r"og:[a-z0-9:_.-]{1,60}")
_OPEN_GRAPH_URL = re.compile(r"og:(url|(image|video|audio)(:url|:secure_url)?)")
_BREAKS = re.compile(r"[\t\n\r]")  # nothing in an address, and so no way to hide `javascript:`
_NOT_IN_A_URL = re.compile(r"[\s<>\"\\^`{|}]")


@dataclass(frozen=True)
class FrontPage:
    """One-line texts in NFC, absolute http(s) addresses; None for what the page does not say."""

    content_hash: str
    """SHA-256 of the body, hexadecimal."""
    title: str | None = None
    description: str | None = None
    language: str | None = None
    """As BCP 47 writes it: `ko`, `en-GB`."""
    canonical_url: str | None = None
    open_graph: dict[str, str] = field(default_factory=dict)
    """Name (`og:title`) → first value, in the page's order."""
    favicon_url: str | None = None
    feed_urls: tuple[str, ...] = ()
    """RSS and Atom, in the page's order."""


def read_front_page(body: bytes, charset: str | None, url: str) -> FrontPage:
    """What the page at `url` says; of rubbish only the hash. Any bytes are read, none raises.

    `charset` is that of the Content-Type header. Texts are cut at their caps, longer addresses left out.
    """
    content_hash = hashlib.sha256(body).hexdigest()
    root = _tree(decode_page(body, charset))
    if root is None:
        return FrontPage(content_hash)
    metas = list(islice(root.iter("meta"), _MOST_ELEMENTS))
    links = list(islice(root.iter("link"), _MOST_ELEMENTS))
    base = _base(root, url)
    return FrontPage(
        content_hash=content_hash,
        title=_title(root),
        description=_description(metas),
        language=_language(root, metas),
        canonical_url=_first_address(base, (link for link in links if "canonical" in _rel(link))),
        open_graph=_open_graph(base, metas),
        favicon_url=_favicon(base, links),
        feed_urls=_feeds(base, links),
    )


def _tree(text: str) -> Element | None:
    # UTF-8 bytes with the encoding named: a declaration inside the page would be believed otherwise.
    clean = _UNPRINTABLE.sub("", text).encode()
    try:
        return etree.fromstring(clean, etree.HTMLParser(encoding="utf-8", huge_tree=True, recover=True))
    except etree.XMLSyntaxError:  # nothing in it that could be an element
        return None


def _line(text: str | None, limit: int) -> str | None:
    """One tidy line of at most `limit` characters, None for an empty one."""
    # Cut twice: before the work, since an attribute can be a megabyte, and after it to the limit.
    clean = unicodedata.normalize("NFC", _UNPRINTABLE.sub("", (text or "")[: 20 * limit]))
    return " ".join(clean.split())[:limit].strip() or None


def _title(root: Element) -> str | None:
    for element in islice(root.iter("title"), _MOST_ELEMENTS):
        # A drawing has titles too, for its parts.
        if next(element.iterancestors("svg"), None) is None and (
            title := _line("".join(element.itertext()), MAX_TITLE)
        ):
            return title
    return None


def _content(metas: list[Element], attribute: str, name: str) -> str | None:
    """The first that says something."""
    for meta in metas:
        if (meta.get(attribute) or "").strip().lower() == name and (
            content := _line(meta.get("content"), MAX_TEXT)
        ):
            return content
    return None


def _description(metas: list[Element]) -> str | None:
    return _content(metas, "name", "description")


def _language(root: Element, metas: list[Element]) -> str | None:
    html = next(root.iter("html"), None)
    said = () if html is None else (html.get("lang"), html.get("xml:lang"))
    for tag in (*said, _content(metas, "http-equiv", "content-language")):
        tag = (_line(tag, 100) or "").replace("_", "-")
        if _LANGUAGE.fullmatch(tag):
            language, *rest = tag.split("-")
            return "-".join([language.lower(), *(part.upper() if len(part) == 2 else part for part in rest)])
    return None


def _open_graph(base: str, metas: list[Element]) -> dict[str, str]:
    found: dict[str, str] = {}
    for meta in metas:
        name = (meta.get("property") or meta.get("name") or "").strip().lower()
        if name in found or not _OPEN_GRAPH_NAME.fullmatch(name):
            continue
        content = meta.get("content")
        is_address = _OPEN_GRAPH_URL.fullmatch(name)
        value = _address(base, content) if is_address else _line(content, MAX_TEXT)
        if value:
            found[name] = value
        if len(found) == MAX_OPEN_GRAPH:
            break
    return found


def _favicon(base: str, links: list[Element]) -> str | None:
    icons = [link for link in links if "icon" in _rel(link)]
    touch_icons = [link for link in links if "apple-touch-icon" in _rel(link)]
    return _first_address(base, [*icons, *touch_icons])


def _feeds(base: str, links: list[Element]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for link in links:
        kind = (link.get("type") or "").partition(";")[0].strip().lower()
        if kind in _FEED_TYPES and "alternate" in _rel(link) and (feed := _address(base, link.get("href"))):
            found[feed] = None
            if len(found) == MAX_FEEDS:
                break
    return tuple(found)


def _rel(link: Element) -> list[str]:
    return (link.get("rel") or "")[:200].lower().split()


def _base(root: Element, url: str) -> str:
    elements = islice(root.iter("base"), 1)
    return _first_address(url, elements) or url


def _first_address(base: str, elements: Iterable[Element]) -> str | None:
    for element in elements:
        if address := _address(base, element.get("href")):
            return address
    return None


def _address(base: str, href: str | None) -> str | None:
    """The absolute http(s) address that `href` means on this page, or None."""
    if not href or len(href) > MAX_URL:
        return None
    tidy = _line(_BREAKS.sub("", href), MAX_URL)
    if tidy is None:
        return None
    try:
        address = urljoin(base, tidy.replace(" ", "%20"))
        parts = urlsplit(address)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return None
    if not known or "@" in parts.netloc or len(address) > MAX_URL or _NOT_IN_A_URL.search(address):
        return None
    return address
