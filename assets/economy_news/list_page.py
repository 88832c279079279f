"""A section's list of a day: which articles it links, and where it goes on.

Only `div.section_latest` is read: headlines, series, ranking and advertisements lie outside it, and
headlines carry the same item class. That "could not read" is never "empty" is the rule here:

- no list on the page, or none in a fragment: `ListLayoutChanged`;
- a list that lists nothing: an empty page;
- a page cut off inside its list: what arrived is listed; cut off before the first item, it is refused;
- several items, and not one links an article: `ListLayoutChanged`, the links look different now.
"""

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass

from assets.economy_news.article_url import ArticleIds, article_ids
from assets.economy_news.page_text import Element, by_class, decode_page, parse_tree, tidy_line

_LISTS = by_class("section_latest")
_LIST_TAG = re.compile(r"class\s*=\s*[\"'][^\"'<>]{0,200}\bsection_latest\b")
_ROOTS = by_class("section_latest_article")
_ITEM_TITLES = by_class("sa_text_title")


class ListLayoutChanged(Exception):
    """The list could not be found or read; nothing is known about what it holds."""


@dataclass(frozen=True, slots=True)
class ListPage:
    """The articles of one page in the order of their first link, and the cursor of the next page.

    `next_cursor` is set exactly where `has_next` is true: a page that promises more but gives no
    cursor cannot be followed, since the page number alone repeats the page.
    """

    article_ids: tuple[ArticleIds, ...]
    next_cursor: str | None
    has_next: bool


def parse_list_page(html: bytes, extra_hosts: Set[str] = frozenset()) -> ListPage:
    """The list of a whole section page; raises `ListLayoutChanged`.

    Links are accepted on Naver's news hosts and on `extra_hosts` (`host[:port]`, lower case).
    """
    # 0.1 of the CPU time of BeautifulSoup(html, "lxml"), measured on a saved list page of 300 KB.
    text = decode_page(html)
    found = next((element for element in _LISTS(parse_tree(text)) if element.tag == "div"), None)
    if found is None:
        raise ListLayoutChanged("no div.section_latest on the page")
    page = _read(found, extra_hosts)
    if not page.article_ids and _ends_inside_the_list(text):
        raise ListLayoutChanged("the page ends before the first item of its list")
    return page


def parse_list_fragment(html: str, extra_hosts: Set[str] = frozenset()) -> ListPage:
    """The list of a "more" answer's HTML, rooted in `.section_latest_article`; raises `ListLayoutChanged`."""
    root = next(iter(_ROOTS(parse_tree(html))), None)
    if root is None:
        raise ListLayoutChanged("no .section_latest_article in the fragment")
    return _read(root, extra_hosts)


def _ends_inside_the_list(text: str) -> bool:
    tag = next(_LIST_TAG.finditer(text), None)
    return tag is not None and "</div" not in text[tag.end() :]


def _read(root: Element, extra_hosts: Set[str]) -> ListPage:
    found = _distinct_articles((link.get("href", "") for link in root.iter("a")), extra_hosts)
    titles = len(_ITEM_TITLES(root))
    if not found and titles > 1:
        raise ListLayoutChanged(f"{titles} items, and none links an article")
    cursor = _next_cursor(root)
    return ListPage(article_ids=found, next_cursor=cursor, has_next=cursor is not None)


def _distinct_articles(hrefs: Iterable[str], extra_hosts: Set[str]) -> tuple[ArticleIds, ...]:
    ids = (article_ids(href, extra_hosts) for href in hrefs)
    return tuple(dict.fromkeys(found for found in ids if found is not None))


def _next_cursor(root: Element) -> str | None:
    state = next(iter(_ROOTS(root)), None)
    if state is None or state.get("data-has-next", "").strip().lower() != "true":
        return None
    return tidy_line(state.get("data-cursor", "")) or None
