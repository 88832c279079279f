"""Generated bad inputs: parsers return or raise their documented errors, and nothing else.

500 inputs each; GRANARY_BAD_INPUTS=10000 for the long round.
"""

import re
import unicodedata
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.economy_news.article_page import (
    Article,
    ArticleGone,
    ArticleMoved,
    ArticleUnreadable,
    parse_article_page,
)
from assets.economy_news.article_url import article_ids, is_on_other_service
from assets.economy_news.list_page import ListLayoutChanged, ListPage, parse_list_fragment, parse_list_page
from assets.economy_news.near_duplicates import signature, similarity
from assets.economy_news.page_text import decode_page
from tests.bad_inputs import bad_inputs
from tests.unit.economy_news import saved_pages

URL = "https://n.news.naver.com/mnews/article/001/0000000042"

PIECES = [
    '<div id="dic_area">',
    '<article id="newsct_article">',
    '<div id="articleBodyContents">',
    '<h2 id="title_area">',
    '<div class="section_latest">',
    '<div class="section_latest_article" data-has-next="true" data-cursor="',
    '<a class="sa_text_title" href="',
    "/article/001/0000000042",
    "https://n.news.naver.com/mnews/article/comment/001/0000000042",
    "http://[::1/article/001/0000000042",
    '<meta property="og:url" content="',
    '<meta http-equiv="refresh" content="0;url=https://m.sports.naver.com">',
    '<meta property="article:published_time" content="0001-01-01T00:00:00+14:00">',
    '<script type="application/ld+json">{"datePublished": "2026-03-02T09:00:00',
    "<script>location.href='",
    '<span class="_ARTICLE_DATE_TIME" data-date-time="2026-13-99 99:99:99">',
    '<span class="t11">2026.03.02. 오후 99:99',
    '<span class="byline_s">x@y.z',
    '<span class="end_photo_org">',
    "</div>",
    "</span></script></a>",
    '">',
    "<br>",
    "<!--",
    "-->",
    "<![CDATA[",
    "<?xml version='1.0' encoding='utf-16'?>",
    "<plaintext>",
    "<table><tr><td>",
    "<select><option>",
    "<svg><math>",
    "삭제된 기사",
    "▶ 구독",
    "ⓒ",
    "본문이다.",
    "&#0;&#xD800;&#x110000;&nbsp",
    "\x00\x01\u2028\ufeff\u200b",
    "\U0001f468\u200d\U0001f469",
    unicodedata.normalize("NFD", "금리"),
]
TEXT = st.text(st.characters(), max_size=40)  # lone surrogates included
PAGES_AS_TEXT = st.lists(st.sampled_from(PIECES) | TEXT, max_size=40).map("".join)
ENCODINGS = st.sampled_from(["utf-8", "cp949", "utf-16", "utf-8-sig"])


@st.composite
def damaged_pages(draw: st.DrawFn) -> bytes:
    """A saved page that was cut, doubled, overwritten or had bytes put in."""
    page = saved_pages.page(draw(st.sampled_from(saved_pages.names("*"))))
    start = draw(st.integers(0, len(page)))
    end = draw(st.integers(start, len(page)))
    middle = draw(st.binary(max_size=20) | st.just(page[start:end]))
    return page[:start] + middle + page[draw(st.sampled_from([start, end, len(page)])) :]


PAGES = (
    st.binary(max_size=400)
    | damaged_pages()
    | st.builds(lambda text, encoding: text.encode(encoding, "replace"), PAGES_AS_TEXT, ENCODINGS)
)


def assert_storable(text: str | None) -> None:
    if text is not None:
        text.encode()
        assert "\x00" not in text
        assert unicodedata.is_normalized("NFC", text)


@bad_inputs
@given(html=PAGES, url=st.just(URL) | TEXT)
def test_an_article_page_is_read_or_refused_with_one_of_three_errors(html: bytes, url: str) -> None:
    try:
        article = parse_article_page(html, url)
    except (ArticleGone, ArticleMoved, ArticleUnreadable):
        return
    assert article.body and article.title
    for text in (article.title, article.body, article.press, article.reporter, article.thumbnail_url):
        assert_storable(text)
    for moment in (article.published_at, article.modified_at):
        assert moment is None or moment.utcoffset() == timedelta(hours=9)


@bad_inputs
@given(html=PAGES)
def test_a_list_page_is_read_or_its_layout_has_changed(html: bytes) -> None:
    try:
        page = parse_list_page(html)
    except ListLayoutChanged:
        return
    assert_sound(page)


@bad_inputs
@given(html=PAGES_AS_TEXT | damaged_pages().map(decode_page))
def test_a_fragment_is_read_or_its_layout_has_changed(html: str) -> None:
    try:
        page = parse_list_fragment(html)
    except ListLayoutChanged:
        return
    assert_sound(page)


def assert_sound(page: ListPage) -> None:
    assert len(set(page.article_ids)) == len(page.article_ids)
    for oid, aid in page.article_ids:
        assert (len(oid), len(aid)) == (3, 10) and (oid + aid).isascii() and (oid + aid).isdigit()
    assert page.has_next == bool(page.next_cursor)
    assert_storable(page.next_cursor)


ADDRESS_PIECES = st.sampled_from(
    [*"/:@?#[]%\\. ", URL, "//", "article", "oid=001", "https://m.sports.naver.com", "entertain.naver.com"]
)


@bad_inputs
@given(url=TEXT | st.lists(ADDRESS_PIECES, max_size=12).map("".join))
def test_any_text_is_an_article_address_or_none(url: str) -> None:
    ids = article_ids(url)
    assert ids is None or (ids[0] in url and ids[1] in url and not is_on_other_service(url))
    assert not is_on_other_service(url) or "sports" in url.lower() or "entertain" in url.lower()
    assert is_on_other_service(f"https://M.Sports.naver.com:443/{url}")


@bad_inputs
@given(text=st.text(st.characters(), max_size=200) | st.text(" .,…?\n\ud800", max_size=5))
def test_any_text_has_a_signature_that_is_like_itself_if_it_has_words(text: str) -> None:
    made = signature(text)
    assert len(made) == 512
    has_words = re.search(r"\w", text.casefold()) is not None
    assert similarity(made, made) == has_words


@pytest.mark.parametrize(
    "body",
    [
        "가나다 " * 1_000_000,
        "가" * 3_000_000,
        "a@b.example " * 300_000,
        "<div>" * 1_000_000,
        "<b>" * 1_000_000 + "x",
    ],
    ids=["words", "one word", "addresses", "nested blocks", "nested marks"],
)
def test_a_page_of_megabytes_is_read_or_refused(body: str) -> None:
    html = f'<h2 id="title_area">제목</h2><div id="dic_area">{body}</div>'.encode()
    try:
        article: Article | None = parse_article_page(html, URL)
    except ArticleUnreadable:
        article = None
    assert article is None or len(article.body) <= len(body)
