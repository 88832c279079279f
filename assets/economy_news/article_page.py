"""An article's page: its fields, or why it has none.

Three things can be wrong with a page, each with its own error, since each is treated in its own way:
gone (recorded, not fetched again), moved to sports or entertainment (recorded, not retried) and
unreadable (counted, tried again). The current layout and both older ones are read.
"""

import re
from dataclasses import dataclass
from datetime import datetime

from assets.economy_news.article_body import clean_body
from assets.economy_news.article_dates import modified_at, published_at
from assets.economy_news.article_url import (
    ArticleIds,
    article_ids,
    article_ids_on_any_host,
    is_on_other_service,
)
from assets.economy_news.page_text import (
    UNSEEN_TAGS,
    Element,
    by_class,
    by_id,
    decode_page,
    parse_tree,
    read_meta,
    rendered_text,
    tidy_line,
)

_TITLES = by_id("title_area"), by_class("media_end_head_headline"), by_id("articleTitle")
_BODIES = by_id("dic_area"), by_id("newsct_article"), by_id("articleBodyContents")
_LOGOS = by_class("media_end_head_top_logo", "press_logo")
_REPORTERS = by_class("media_end_head_journalist_name"), by_class("byline_s")

_REFRESH_TARGET = re.compile(r"url\s{0,5}=\s{0,5}[\"']?([^\"'\s>]+)", re.IGNORECASE)
_SCRIPT_TARGET = re.compile(
    r"location(?:\.href|\.replace|\.assign)?\s{0,5}[=(]\s{0,5}[\"']([^\"'\s]{1,500})[\"']"
)
# A page that only redirects shows next to nothing; a whole page may link sports from its menus.
_MOST_TEXT_OF_A_REDIRECT = 200
_GONE_NOTICES = ("삭제된기사", "노출중단", "페이지를찾을수없습니다", "존재하지않는기사", "서비스되지않는")

# Elements of one class inside each other, and lines without end, must not cost more than the page itself.
_MOST_REPORTERS = 10
_LONGEST_BYLINE = 300
_EMAIL = re.compile(r"[(\[<]?[\w.%+-]{1,64}@[\w.-]{1,255}[)\]>]?", re.ASCII)
_AND_OTHERS = re.compile(r"외 ?[0-9]+ ?[명인]$")
_REPORTER_TITLE = re.compile(r"\s|(?:선임|전문|수습|인턴|객원)?기자$|특파원$")


class ArticleGone(Exception):
    """The page has no article and says that it was deleted or taken down."""


class ArticleMoved(Exception):
    """The article lives on the sports or entertainment pages, which are not read."""


class ArticleUnreadable(Exception):
    """Neither an article nor a notice: the layout changed, or the page is broken."""


@dataclass(frozen=True, slots=True)
class Article:
    """One article as its page shows it. Text is NFC plain text; `body` has a paragraph a line.

    Both times are aware, in Asia/Seoul. What may be missing from a page may be None.
    """

    oid: str
    aid: str
    title: str
    body: str
    published_at: datetime | None
    modified_at: datetime | None
    press: str | None
    reporter: str | None
    thumbnail_url: str | None


def parse_article_page(html: bytes, url: str) -> Article:
    """The article of a page that was fetched from `url`, the address after all redirects.

    Raises `ArticleMoved`, `ArticleGone` or `ArticleUnreadable`, and nothing else, whatever the page.
    A page is gone only without a body: an article may quote the words of a notice.
    """
    # 0.2 to 0.3 of the CPU time of BeautifulSoup(html, "lxml"), on saved pages of 120 and 300 KB.
    root = parse_tree(decode_page(html))
    meta = read_meta(root)
    _refuse_declared_move(root, meta, url)
    body = next(filter(None, (clean_body(element) for find in _BODIES for element in find(root)[:1])), "")
    if not body:
        raise _why_no_body(root)
    title = _title(root, meta)
    ids = _ids(root, meta, url)
    if not title or ids is None:
        raise ArticleUnreadable(f"a body, but no {'title' if ids else 'article id'}: {url[:200]}")
    return Article(
        oid=ids[0],
        aid=ids[1],
        title=title,
        body=body,
        published_at=published_at(root, meta),
        modified_at=modified_at(root),
        press=_press(root, meta),
        reporter=_reporter(root),
        thumbnail_url=_thumbnail_url(meta),
    )


def _refuse_declared_move(root: Element, meta: dict[str, str], url: str) -> None:
    refresh = _REFRESH_TARGET.search(meta.get("refresh", ""))
    addresses = [url, meta.get("og:url", ""), refresh[1] if refresh else "", *_canonical(root)]
    for address in addresses:
        if is_on_other_service(address):
            raise ArticleMoved(f"moved to {address[:200]}")


def _why_no_body(root: Element) -> Exception:
    # Links are left out: a list of other headlines may quote a notice.
    shown = rendered_text(root, skipped_tags=UNSEEN_TAGS | {"a"})
    words = "".join(tidy_line(shown).split())
    if len(words) < _MOST_TEXT_OF_A_REDIRECT:
        for script in root.iter("script"):
            for address in _SCRIPT_TARGET.findall((script.text or "").replace("\\/", "/")):
                if is_on_other_service(address):
                    return ArticleMoved(f"moved to {address[:200]}")
    notice = next((notice for notice in _GONE_NOTICES if notice in words), None)
    if notice is not None:
        return ArticleGone(f"the page says: {notice}")
    return ArticleUnreadable("neither a body nor a notice that the article is gone")


def _canonical(root: Element) -> list[str]:
    links = (link for link in root.iter("link") if "canonical" in link.get("rel", "").lower().split())
    return [link.get("href", "") for link in links]


def _title(root: Element, meta: dict[str, str]) -> str:
    elements = (element for find in _TITLES for element in find(root)[:1])
    shown = (tidy_line(rendered_text(element)) for element in elements)
    return next(filter(None, shown), "") or meta.get("og:title", "")


def _ids(root: Element, meta: dict[str, str], url: str) -> ArticleIds | None:
    declared = (article_ids(address) for address in (meta.get("og:url", ""), *_canonical(root)))
    return article_ids_on_any_host(url) or next(filter(None, declared), None)


def _press(root: Element, meta: dict[str, str]) -> str | None:
    author = meta.get("og:article:author", "").split("|")[0].strip()
    logos = (image.get("alt", "") for logo in _LOGOS(root)[:1] for image in logo.iter("img"))
    return author or next(filter(None, map(tidy_line, logos)), None)


def _reporter(root: Element) -> str | None:
    """The names above and below the article, each once: the line below repeats them with addresses."""
    names: dict[str, str] = {}
    for element in (element for find in _REPORTERS for element in find(root)[:_MOST_REPORTERS]):
        shown = tidy_line(rendered_text(element))[:_LONGEST_BYLINE]
        for name in _EMAIL.sub(",", shown).split(","):
            if alone := _AND_OTHERS.sub("", name.strip(" ()[]<>=·/|")).strip():
                names.setdefault(_REPORTER_TITLE.sub("", alone), alone)
    return ", ".join(names.values()) or None


def _thumbnail_url(meta: dict[str, str]) -> str | None:
    address = meta.get("og:image", "")
    if address.startswith("//"):
        address = f"https:{address}"
    return address if address.lower().startswith(("http://", "https://")) else None
