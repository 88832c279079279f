"""Article pages: the fields, and the three ways not to have them (contract: "Article pages")."""

import unicodedata
from dataclasses import asdict
from datetime import datetime

import pytest

from assets.economy_news import article_page
from assets.economy_news.article_page import (
    Article,
    ArticleGone,
    ArticleMoved,
    ArticleUnreadable,
    parse_article_page,
)
from assets.economy_news.korean_dates import SEOUL
from tests.unit.economy_news import saved_pages

URL = "https://n.news.naver.com/mnews/article/001/0000000042"
TITLE = '<h2 id="title_area">제목</h2>'
BODY = '<div id="dic_area">본문이다.</div>'
NOON = datetime(2026, 3, 2, 12, 22, tzinfo=SEOUL)


def parse(inside: str, url: str = URL, head: str = "") -> Article:
    return parse_article_page(f"<html><head>{head}</head><body>{inside}</body></html>".encode(), url)


def as_json(article: Article) -> dict[str, str | None]:
    return {k: v.isoformat() if isinstance(v, datetime) else v for k, v in asdict(article).items()}


@pytest.mark.parametrize("name", saved_pages.names("article_*"))
def test_a_saved_page_parses_to_its_expected_value(name: str) -> None:
    expected = saved_pages.expected(name)
    if "error" in expected:
        with pytest.raises(getattr(article_page, expected["error"])):
            parse_article_page(saved_pages.page(name), expected["url"])
    else:
        article = parse_article_page(saved_pages.page(name), expected["url"])
        assert as_json(article) == expected["article"]


@pytest.mark.parametrize("name", saved_pages.names("article_*_layout*"))
def test_no_saved_layout_loses_its_last_sentence_when_the_page_stops_after_it(name: str) -> None:
    expected = saved_pages.expected(name)
    last = expected["article"]["body"].split("\n")[-2]
    page = saved_pages.page(name).decode()
    cut = page[: page.rindex(last) + len(last)].encode() + "윤".encode()[:2]
    assert last in parse_article_page(cut, expected["url"]).body


# Title and body


@pytest.mark.parametrize(
    ("html", "title"),
    [
        ('<h2 id="title_area">하나</h2><h2 class="media_end_head_headline">둘</h2>', "하나"),
        ('<h2 id="title_area"> </h2><h2 class="x media_end_head_headline">둘</h2>', "둘"),
        ('<h3 id="articleTitle">셋</h3>', "셋"),
        ("", "넷"),
    ],
)
def test_the_title_is_the_first_place_that_holds_one(html: str, title: str) -> None:
    assert parse(html + BODY, head='<meta property="og:title" content="넷">').title == title


def test_a_title_of_five_thousand_characters_is_kept_whole() -> None:
    assert parse(f'<h2 id="title_area">{"가" * 5000}</h2>{BODY}').title == "가" * 5000


@pytest.mark.parametrize("tag", ["div", "article"])
@pytest.mark.parametrize("place", ["dic_area", "newsct_article", "articleBodyContents"])
def test_the_body_is_read_from_each_of_its_places(tag: str, place: str) -> None:
    assert parse(f'{TITLE}<{tag} id="{place}">본문이다.</{tag}>').body == "본문이다."


def test_an_empty_first_place_does_not_hide_the_body() -> None:
    assert (
        parse(f'{TITLE}<div id="dic_area"></div><div id="articleBodyContents">본문이다.</div>').body
        == "본문이다."
    )


def test_text_is_nfc_without_nul_and_lone_surrogates() -> None:
    dirty = unicodedata.normalize("NFD", "금리") + "\x00 인하"
    article = parse(f'<h2 id="title_area">{dirty}</h2><div id="dic_area">{dirty}&#xD800;</div>')
    assert article.title == "금리 인하"
    assert article.body.startswith("금리 인하")
    article.body.encode()


# Ids


def test_the_ids_come_from_the_address_before_the_page() -> None:
    head = '<meta property="og:url" content="https://n.news.naver.com/mnews/article/002/0000000002">'
    article = parse(TITLE + BODY, head=head)
    assert (article.oid, article.aid) == ("001", "0000000042")
    local = parse(TITLE + BODY, url="http://127.0.0.1:8123/mnews/article/003/0000000003", head=head)
    assert (local.oid, local.aid) == ("003", "0000000003")


def test_the_ids_come_from_the_page_where_the_address_has_none() -> None:
    head = (
        '<meta property="og:url" content="https://news.naver.com/main/read.nhn?oid=002&amp;aid=0000000002">'
    )
    article = parse(TITLE + BODY, url="https://short.example/x", head=head)
    assert (article.oid, article.aid) == ("002", "0000000002")


@pytest.mark.parametrize("url", ["", "x", "https://[", "https://n.news.naver.com/article/１１１/0000000042"])
def test_an_article_without_ids_is_unreadable(url: str) -> None:
    with pytest.raises(ArticleUnreadable, match="article id"):
        parse(TITLE + BODY, url=url)


def test_an_article_without_a_title_is_unreadable() -> None:
    with pytest.raises(ArticleUnreadable, match="title"):
        parse(BODY)


# Times

META_TIME = '<meta property="article:published_time" content="2026-03-02T12:22:00+09:00">'
DATE_TIME = '<span class="_ARTICLE_DATE_TIME" data-date-time="{}">x</span>'
JSON_LD = '<script type="application/ld+json">{"datePublished": "2026-03-02T12:22:00+09:00"}</script>'
SHOWN = '<span class="t11">2026.03.02. 오후 12:22</span>'


@pytest.mark.parametrize(
    ("head", "inside"),
    [
        (META_TIME, DATE_TIME.format("2026-03-01 00:00:00")),
        ("", DATE_TIME.format("2026-03-02 12:22:00") + JSON_LD.replace("03-02", "03-01")),
        ("", JSON_LD + SHOWN.replace("03.02", "03.01")),
        ("", SHOWN + SHOWN.replace("03.02", "03.03")),
        ("", "<div><b>입력</b> 2026.03.02. 오후 12:22</div>"),
    ],
)
def test_the_time_is_taken_from_the_first_source_that_has_it(head: str, inside: str) -> None:
    assert parse(inside + TITLE + BODY, head=head).published_at == NOON


def test_a_source_without_a_time_is_passed_over() -> None:
    head = META_TIME.replace("2026-03-02T12:22:00+09:00", "어제")
    broken = DATE_TIME.format("2026-02-30 12:00:00") + JSON_LD.replace("2026", "x") + "<script>{</script>"
    assert parse(broken + SHOWN + TITLE + BODY, head=head).published_at == NOON


def test_a_page_without_a_time_is_still_an_article() -> None:
    article = parse(TITLE + BODY)
    assert (article.published_at, article.modified_at) == (None, None)


def test_the_time_of_a_change_is_never_taken_for_the_time_of_publication() -> None:
    changed = (
        '<span class="media_end_head_info_datestamp_time _ARTICLE_MODIFY_DATE_TIME"'
        ' data-modify-date-time="2026-03-02 12:22:00">2026.03.02. 오후 12:22</span>'
    )
    article = parse(changed + TITLE + BODY)
    assert (article.published_at, article.modified_at) == (None, NOON)


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "1" * 5000, "null", '{"datePublished": 5}', ""])
def test_broken_json_ld_costs_only_the_time(text: str) -> None:
    assert parse(f'<script type="application/ld+json">{text}</script>{TITLE}{BODY}').published_at is None


# Press, reporter, picture


@pytest.mark.parametrize(
    ("author", "press"),
    [
        ("한빛일보 | 네이버", "한빛일보"),
        ("한빛일보", "한빛일보"),
        (" | 네이버", "로고일보"),
        ("", "로고일보"),
    ],
)
def test_the_press_is_named_by_the_page_and_else_by_its_logo(author: str, press: str) -> None:
    logo = '<a class="media_end_head_top_logo"><img alt="로고일보"></a>'
    head = f'<meta property="og:article:author" content="{author}">'
    assert parse(logo + TITLE + BODY, head=head).press == press


def test_reporters_are_joined_and_named_once() -> None:
    names = '<em class="media_end_head_journalist_name">윤가람 기자</em>'
    lines = (
        '<span class="byline_s">윤가람 (garam@hanbit.example)</span>'
        '<span class="byline_s">도하늘 기자 haneul@hanbit.example</span>'
    )
    assert parse(names + TITLE + BODY + lines).reporter == "윤가람 기자, 도하늘 기자"


def test_what_a_page_lacks_is_none() -> None:
    article = parse(TITLE + BODY)
    assert (article.press, article.reporter, article.thumbnail_url) == (None, None, None)


@pytest.mark.parametrize(
    ("content", "address"),
    [
        ("https://img.example/a.jpg?type=w800", "https://img.example/a.jpg?type=w800"),
        ("//img.example/a.jpg", "https://img.example/a.jpg"),
        ("javascript:alert(1)", None),
        ("/a.jpg", None),
        ("", None),
    ],
)
def test_a_thumbnail_is_a_web_address_or_none(content: str, address: str | None) -> None:
    assert (
        parse(TITLE + BODY, head=f'<meta property="og:image" content="{content}">').thumbnail_url == address
    )


# Gone, moved, unreadable

NOTICES = [
    "삭제된 기사입니다.",
    "노출 중단된 기사입니다.",
    "페이지를 찾을 수 없습니다",
    "존재하지 않는 기사입니다",
    "서비스 되지 않는 기사입니다",
]


@pytest.mark.parametrize("notice", NOTICES)
def test_a_notice_without_a_body_is_gone(notice: str) -> None:
    with pytest.raises(ArticleGone):
        parse(f'{TITLE}<div id="dic_area"><span class="end_photo_org">사진</span></div><p>{notice}</p>')
    with pytest.raises(ArticleGone):
        parse(unicodedata.normalize("NFD", notice.replace(" ", "<br>")))


@pytest.mark.parametrize("notice", NOTICES)
def test_a_notice_beside_a_body_is_not_gone(notice: str) -> None:
    assert parse(f"{TITLE}{BODY}<p>{notice}</p>").body == "본문이다."


@pytest.mark.parametrize("notice", NOTICES)
@pytest.mark.parametrize(
    "place", ["<script>'{}'</script>", "<!-- {} -->", "<a href='/'>{}</a>", "<noscript>{}</noscript>"]
)
def test_a_notice_that_nobody_is_shown_is_unreadable_not_gone(place: str, notice: str) -> None:
    with pytest.raises(ArticleUnreadable):
        parse(place.format(notice) + TITLE)


@pytest.mark.parametrize(
    "html", [b"", b"\x00", b"<html></html>", b"\xff" * 100, b"{}", "안내".encode("utf-16")]
)
def test_a_page_with_nothing_on_it_is_unreadable(html: bytes) -> None:
    with pytest.raises(ArticleUnreadable):
        parse_article_page(html, URL)


@pytest.mark.parametrize(
    "head",
    [
        '<link rel="canonical" href="https://m.sports.naver.com/article/001/0000000042">',
        '<meta property="og:url" content="https://entertain.naver.com/read?oid=001&amp;aid=0000000042">',
        '<meta http-equiv="Refresh" content="0; URL=\'https://m.entertain.naver.com/article/001/0000000042\'">',
    ],
)
def test_a_page_that_says_it_moved_has_moved_even_with_a_body(head: str) -> None:
    with pytest.raises(ArticleMoved):
        parse(TITLE + BODY, head=head)


@pytest.mark.parametrize("host", ["m.sports.naver.com", "sports.news.naver.com", "entertain.naver.com"])
def test_a_page_of_a_sports_or_entertainment_host_has_moved(host: str) -> None:
    with pytest.raises(ArticleMoved):
        parse(TITLE + BODY, url=f"https://{host}/article/001/0000000042")


@pytest.mark.parametrize(
    "script",
    [
        "location.href = 'https://m.sports.naver.com/x'",
        'window.location="https://m.sports.naver.com/x"',
        'document.location.assign("https:\\/\\/m.entertain.naver.com\\/x")',
    ],
)
def test_a_script_that_leads_away_moves_a_page_that_shows_nothing_else(script: str) -> None:
    with pytest.raises(ArticleMoved):
        parse("", head=f"<script>{script}</script>")
    assert parse(TITLE + BODY, head=f"<script>{script}</script>").body == "본문이다."
    with pytest.raises(ArticleUnreadable):
        parse("새 배치로 바뀐 기사이다. " * 40, head=f"<script>{script}</script>")
