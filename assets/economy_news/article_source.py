"""Where articles come from. A second source (a licensed feed, the team's own CMS) is a second class.

A source raises: ListLayoutChanged for a list that cannot be read; ArticleGone, ArticleMoved,
ArticleUnreadable for one article; and what its resource raises for one that cannot be fetched.
"""

import json
from datetime import date
from typing import Protocol
from urllib.parse import urlencode, urlsplit

from assets.economy_news.article_page import (
    Article,
    ArticleGone,
    ArticleMoved,
    parse_article_page,
)
from assets.economy_news.article_url import is_other_service_host
from assets.economy_news.list_page import ListLayoutChanged, ListPage, parse_list_fragment, parse_list_page
from resources.errors import FetchFailed
from resources.polite_site import PoliteSite

SECTION_CODES = {
    "FINANCE": 259,
    "STOCK": 258,
    "INDUSTRY": 261,
    "VENTURE": 771,
    "REALESTATE": 260,
    "WORLD": 262,
    "LIVING": 310,
    "GENERAL": 263,
}
FRAGMENT = "SECTION_ARTICLE_LIST_FOR_LATEST"


class ArticleSource(Protocol):
    """Lists the articles of a day (Asia/Seoul) and section, newest first, and fetches one."""

    def list_page(self, day: date, section: str, number: int, cursor: str | None) -> ListPage:
        """Page `number` (from 1); `cursor` is the `next_cursor` of the page before."""

    def article(self, oid: str, aid: str) -> Article:
        """The article as its page has it."""


class NaverPages:
    """Naver's section lists and article pages, or a stand-in with the same pages."""

    def __init__(self, site: PoliteSite) -> None:
        self._site = site
        self._own_hosts = frozenset({site.host})

    def list_page(self, day: date, section: str, number: int, cursor: str | None) -> ListPage:
        code, date_text = SECTION_CODES[section], day.strftime("%Y%m%d")
        if cursor is None:
            path = f"/breakingnews/section/101/{code}?date={date_text}"
            return parse_list_page(self._body(path), extra_hosts=self._own_hosts)
        # The cursor comes from a page: quoted, it cannot add to the request.
        query = {"sid": 101, "sid2": code, "cluid": "", "pageNo": number, "date": date_text, "next": cursor}
        path = f"/section/template/{FRAGMENT}?{urlencode(query)}"
        return parse_list_fragment(_rendered(self._body(path)), extra_hosts=self._own_hosts)

    def article(self, oid: str, aid: str) -> Article:
        page = self._site.get(f"/mnews/article/{oid}/{aid}")
        if page.leaves_to is not None:
            if is_other_service_host(urlsplit(page.leaves_to).hostname or ""):
                raise ArticleMoved(f"moved to {urlsplit(page.leaves_to).hostname}")
            raise FetchFailed(f"redirected to another host, {urlsplit(page.leaves_to).hostname}")
        if page.status != 200:
            raise ArticleGone(f"status {page.status}")
        article = parse_article_page(page.body, page.url)
        if (article.oid, article.aid) != (oid, aid):
            raise FetchFailed("the page is of another article")
        return article

    def _body(self, path: str) -> bytes:
        page = self._site.get(path)
        if page.status != 200 or page.leaves_to is not None:
            raise FetchFailed(f"the list answers {page.status}")
        return page.body


def _rendered(answer: bytes) -> str:
    """The HTML in a fragment's JSON answer."""
    try:
        component = json.loads(answer)["renderedComponent"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ListLayoutChanged("the list's further pages are no JSON with a renderedComponent") from None
    html = component.get(FRAGMENT) if isinstance(component, dict) else component
    if not isinstance(html, str):
        raise ListLayoutChanged("the list's further pages hold no HTML")
    return html
