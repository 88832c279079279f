"""What a front page says of itself, in any encoding, and that no bytes raise."""

import hashlib
import unicodedata
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.raw_files.front_page import (
    MAX_FEEDS,
    MAX_OPEN_GRAPH,
    MAX_TEXT,
    MAX_TITLE,
    MAX_URL,
    FrontPage,
    read_front_page,
)
from local_stack.front_pages.pages import front_page
from local_stack.front_pages.sites import SITES
from tests.bad_inputs import bad_inputs

URL = "https://hanbit-news.test/start/"
KOREAN = "한빛일보의 아침 소식을 전합니다"
JAPANESE = "朝霧タイムズのあさのニュースをおつたえします"


def read(html: str | bytes, charset: str | None = "utf-8") -> FrontPage:
    return read_front_page(html.encode() if isinstance(html, str) else html, charset, URL)


def test_a_page_that_says_everything_is_read_whole() -> None:
    html = """<!doctype html><html lang="ko-kr"><head>
      <title> 한빛일보
        &amp; 친구들 </title>
      <META NAME="Description" CONTENT="아침 &quot;소식&quot;">
      <link rel="canonical" href="/">
      <meta property="og:title" content="첫째"><meta property="og:title" content="둘째">
      <meta property="og:image" content="cover.png"><meta name="og:site_name" content="한빛">
      <meta property="twitter:card" content="no">
      <link rel="apple-touch-icon" href="/touch.png"><link rel="Shortcut Icon" href="/favicon.ico">
      <link rel="alternate" type="application/rss+xml" href="/rss">
      <link rel="alternate" type="Application/Atom+XML; charset=utf-8" href="//feeds.hanbit-news.test/atom">
      <link rel="alternate" hreflang="en" href="/en"><link rel="stylesheet" href="/x.css">
    </head><body>본문</body></html>"""
    assert read(html) == FrontPage(
        content_hash=hashlib.sha256(html.encode()).hexdigest(),
        title="한빛일보 & 친구들",
        description='아침 "소식"',
        language="ko-KR",
        canonical_url="https://hanbit-news.test/",
        open_graph={
            "og:title": "첫째",
            "og:image": "https://hanbit-news.test/start/cover.png",
            "og:site_name": "한빛",
        },
        favicon_url="https://hanbit-news.test/favicon.ico",
        feed_urls=("https://hanbit-news.test/rss", "https://feeds.hanbit-news.test/atom"),
    )


def test_a_page_that_says_nothing_is_none_throughout() -> None:
    for html in (
        "",
        " ",
        "<html></html>",
        "<title> </title><meta name=description content=' '>",
        "<!-- x -->",
    ):
        assert read(html) == FrontPage(hashlib.sha256(html.encode()).hexdigest())


@pytest.mark.parametrize("host", SITES)
def test_every_site_of_the_local_stack_is_read_under_its_name(host: str) -> None:
    site = SITES[host]
    page = read_front_page(front_page(site).encode(), "utf-8", f"http://{host}/")
    assert page.title and page.title.startswith(site.title)
    assert page.language and page.language[:2] == site.language


def test_a_page_without_a_head_is_read() -> None:
    page = read("<title>한빛</title><p>본문<meta name=description content=소식>")
    assert (page.title, page.description) == ("한빛", "소식")


def test_the_title_of_a_drawing_is_not_the_pages() -> None:
    assert read("<svg><title>icon</title></svg><title>한빛</title>").title == "한빛"


def test_a_base_element_moves_relative_addresses() -> None:
    page = read("<base href='https://cdn.hanbit-news.test/a/'><link rel=icon href=i.png>")
    assert page.favicon_url == "https://cdn.hanbit-news.test/a/i.png"
    assert read("<base href='data:x'><link rel=icon href=i.png>").favicon_url == URL + "i.png"


@pytest.mark.parametrize(
    "href",
    [
        "javascript:alert(1)",
        "java&#10;script:alert(1)",
        "data:image/png;base64,AA",
        "file:///etc/hostname",
        "http://",
        "http://[::1",
        "http://x:port/",
        "//user:secret@x.test/",
        "mailto:a@x.test",
        "",
        "http://a<b>.test/",
    ],
)
def test_only_absolute_web_addresses_are_kept(href: str) -> None:
    page = read(
        f'<link rel=canonical href="{href}"><link rel=icon href="{href}"><link rel=canonical href=/next>'
        f'<meta property=og:url content="{href}"><link rel=alternate type=application/rss+xml href="{href}">'
    )
    assert (page.favicon_url, page.open_graph, page.feed_urls) == (None, {}, ())
    assert page.canonical_url == "https://hanbit-news.test/next"


@pytest.mark.parametrize(
    ("tag", "language"),
    [
        ("ko", "ko"),
        ("KO_kr", "ko-KR"),
        ("zh-Hant-tw", "zh-Hant-TW"),
        ("Korean language", None),
        ("<x>", None),
    ],
)
def test_a_language_is_a_tag_or_none(tag: str, language: str | None) -> None:
    assert read(f'<html lang="{tag}"><title>x</title>').language == language


def test_a_language_may_stand_in_a_meta() -> None:
    assert read('<meta http-equiv="Content-Language" content="ja">').language == "ja"


def page_of(text: str, meta: str = "") -> str:
    return f"<html><head>{meta}<title>{text}</title></head><body>{text * 3}</body></html>"


@pytest.mark.parametrize(
    ("body", "charset", "title"),
    [
        (page_of(KOREAN).encode(), None, KOREAN),
        (page_of(KOREAN).encode("utf-8-sig"), "euc-kr", KOREAN),
        (page_of(KOREAN).encode("utf-16"), None, KOREAN),
        (b"\xfe\xff" + page_of(KOREAN).encode("utf-16-be"), "utf-8", KOREAN),
        (page_of(KOREAN).encode("cp949"), "EUC-KR", KOREAN),
        (page_of("똠방각하 펲시콜라").encode("cp949"), "euc-kr", "똠방각하 펲시콜라"),
        (page_of("똠방각하", "<meta charset=ks_c_5601-1987>").encode("cp949"), None, "똠방각하"),
        (page_of(KOREAN).encode("cp949"), None, KOREAN),
        (page_of(KOREAN, '<meta charset="utf-8">').encode("cp949"), "utf-8", KOREAN),
        (page_of(KOREAN, '<meta charset="euc-kr">').encode(), None, KOREAN),
        (page_of(KOREAN).encode(), "ISO-8859-1", KOREAN),
        (page_of(JAPANESE).encode("shift_jis"), "Shift_JIS", JAPANESE),
        (page_of(JAPANESE, "<meta content='text/html; charset=x-sjis'>").encode("cp932"), None, JAPANESE),
        (page_of(JAPANESE).encode("shift_jis"), None, JAPANESE),
        (page_of(JAPANESE).encode("euc_jp"), "euc-jp", JAPANESE),
        (page_of(JAPANESE, "<meta charset=utf-16>").encode(), None, JAPANESE),
        (page_of("Café – naïve").encode("cp1252"), "latin1", "Café – naïve"),
        (page_of(KOREAN).encode(), "no-such-charset", KOREAN),
        (page_of(KOREAN).encode() + "가".encode()[:2], "utf-8", KOREAN),
        (page_of(KOREAN).encode() + b"\xff", "utf-8", KOREAN),
    ],
)  # fmt: skip
def test_a_page_is_read_in_its_encoding_whatever_it_declares(
    body: bytes, charset: str | None, title: str
) -> None:
    assert read(body, charset).title == title


def test_texts_are_cut_at_their_caps_and_long_addresses_left_out() -> None:
    page = read(
        f"<title>{'가' * 5_000}</title><meta name=description content='{'나 ' * 500_000}'>"
        f"<link rel=icon href='/{'x' * MAX_URL}'>"
        + "".join(f"<meta property=og:x{n} content={'y' * 5_000}>" for n in range(50))
        + "".join(f"<link rel=alternate type=application/rss+xml href=/{n // 2}>" for n in range(50))
    )
    assert page.title == "가" * MAX_TITLE
    assert page.description and len(page.description) == MAX_TEXT - 1
    assert page.favicon_url is None
    assert [len(value) for value in page.open_graph.values()] == [MAX_TEXT] * MAX_OPEN_GRAPH
    assert page.feed_urls == tuple(f"https://hanbit-news.test/{n}" for n in range(MAX_FEEDS))


def test_texts_are_plain_and_storable() -> None:
    page = read(
        "<title>\ufeff한\u200b빛\x01 &#0;&#xD800;\u2028 일보"
        + unicodedata.normalize("NFD", "가")
        + "</title>"
    )
    assert_storable(page.title)
    assert page.title and page.title.startswith("한빛") and page.title.endswith("일보가")


def assert_storable(text: str | None) -> None:
    if text is not None:
        text.encode()
        assert text and text == " ".join(text.split())
        assert "\x00" not in text and unicodedata.is_normalized("NFC", text)


def assert_web_address(url: str) -> None:
    parts = urlsplit(url)
    assert parts.scheme in ("http", "https") and parts.hostname and len(url) <= MAX_URL
    assert "@" not in parts.netloc and not any(map(str.isspace, url))


PIECES = [
    "<html lang='ko'>",
    "<head>",
    "<title>",
    "</title>",
    "<svg>",
    "<base href='",
    "<link rel='icon canonical alternate' type='application/rss+xml' href='",
    "<meta property='og:url' content='",
    "<meta property='og:title' content='",
    "<meta name=description content='",
    "<meta charset='",
    "euc-kr'>",
    "utf-7'>",
    "'>",
    "http://[::1",
    "//x:99999/",
    "javascript:",
    "https://한글.test/뉴스 ",
    "<?xml version='1.0' encoding='utf-16'?>",
    "<!--",
    "-->",
    "<plaintext>",
    "&#0;&#xD800;&#x110000;&nbsp",
    "\x00\x01\u2028\ufeff\u200b",
    unicodedata.normalize("NFD", "금리"),
]
TEXT = st.text(st.characters(), max_size=40)  # lone surrogates included
PAGES = st.binary(max_size=400) | st.builds(
    lambda pieces, encoding: "".join(pieces).encode(encoding, "replace"),
    st.lists(st.sampled_from(PIECES) | TEXT, max_size=40),
    st.sampled_from(["utf-8", "cp949", "shift_jis", "utf-16", "utf-8-sig", "utf-7"]),
)
CHARSETS = (
    st.none() | st.sampled_from(["utf-8", "euc-kr", "Shift_JIS", "utf-16", "latin1", "hex", "idna"]) | TEXT
)


@bad_inputs
@given(body=PAGES, charset=CHARSETS)
def test_any_bytes_are_read(body: bytes, charset: str | None) -> None:
    page = read_front_page(body, charset, URL)
    assert page.content_hash == hashlib.sha256(body).hexdigest()
    for text in (page.title, page.description, page.language, *page.open_graph, *page.open_graph.values()):
        assert_storable(text)
    for url in (page.canonical_url, page.favicon_url, *page.feed_urls):
        assert_storable(url)
        if url is not None:
            assert_web_address(url)


@pytest.mark.parametrize(
    "body",
    [
        bytes(range(256)) * 4_000,
        b"\x89PNG\r\n\x1a\n" + bytes(100_000),
        b"<div>" * 200_000,
        b"<title>" * 140_000,
        b"<meta name=a>" * 70_000,
        b"<svg><title>" * 80_000,
        b"<base href=//" * 70_000,
        b"<" * 1_000_000,
        b"<meta " + b"charset " * 100_000,
    ],
    ids=["all bytes", "image", "nested", "titles", "metas", "drawings", "bases", "brackets", "charsets"],
)
def test_a_megabyte_of_rubbish_says_nothing(body: bytes) -> None:
    page = read(body, None)
    assert page.description is None and page.canonical_url is None and not page.open_graph
