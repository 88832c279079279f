"""What counts as an article's address (contract: "List pages")."""

import pytest

from assets.economy_news.article_url import (
    article_ids,
    article_ids_on_any_host,
    canonical_url,
    is_on_other_service,
    is_other_service_host,
)

IDS = ("001", "0000000042")


@pytest.mark.parametrize(
    "url",
    [
        "https://n.news.naver.com/mnews/article/001/0000000042",
        "https://n.news.naver.com/article/001/0000000042",
        "http://news.naver.com/article/001/0000000042",
        "https://m.news.naver.com/article/001/0000000042?sid=101#comments",
        "https://N.News.NAVER.com/mnews/article/001/0000000042",
        "https://n.news.naver.com:443/mnews/article/001/0000000042",
        "http://n.news.naver.com:80/mnews/article/001/0000000042",
        "//n.news.naver.com/mnews/article/001/0000000042",
        "/mnews/article/001/0000000042",
        "/article/001/0000000042/",
        "  /article/001/0000000042\n",
        "https://news.naver.com/main/read.naver?mode=LSD&mid=sec&sid1=101&oid=001&aid=0000000042",
        "https://news.naver.com/main/read.nhn?aid=0000000042&oid=001",
        "https://m.news.naver.com/read.nhn?oid=001&aid=0000000042&sid1=101",
        "/main/read.nhn?oid=001&aid=0000000042",
        "https://news.naver.com/news_read.naver?article_id=0000000042&office_id=001",
    ],
)
def test_an_article_address_gives_its_ids_as_text_with_leading_zeros(url: str) -> None:
    assert article_ids(url) == IDS


@pytest.mark.parametrize(
    "url",
    [
        "https://n.news.naver.com/mnews/article/comment/001/0000000042",
        "/article/comment/001/0000000042",
        "https://n.news.naver.com/mnews/ranking/article/001/0000000042",
        "https://n.news.naver.com/mnews/hotissue/article/001/0000000042",
        "https://news.naver.com/cluster/c_202603021200_00000001?oid=001&aid=0000000042",
        "https://media.naver.com/press/001",
        "https://media.naver.com/journalist/001/12345",
        "https://news.naver.com/section/101",
        "",
        "#",
        "?oid=001&aid=0000000042",
        "article/001/0000000042",
        "javascript:location='/article/001/0000000042'",
    ],
)
def test_other_pages_are_no_articles(url: str) -> None:
    assert article_ids(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "https://n.news.naver.com.evil.example/mnews/article/001/0000000042",
        "https://evil-n.news.naver.com/mnews/article/001/0000000042",
        "https://evil.example/mnews/article/001/0000000042",
        "https://n.news.naver.com@evil.example/article/001/0000000042",
        "https://evil.example@n.news.naver.com/article/001/0000000042",
        "https://n.news.naver.com:8443/article/001/0000000042",
        "https://n.news.naver.com:80/article/001/0000000042",
        "https://n.news.naver.com:x/article/001/0000000042",
        "https://evil.example\\n.news.naver.com/article/001/0000000042",
        "//evil.example/article/001/0000000042",
        "ftp://n.news.naver.com/article/001/0000000042",
        "https://[n.news.naver.com/article/001/0000000042",
        "https://n.news.naver.com。evil.example/article/001/0000000042",
    ],
)
def test_an_address_that_another_server_may_answer_is_refused(url: str) -> None:
    assert article_ids(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "/article/１２３/0000000042",
        "/article/٠٠١/0000000042",
        "/article/%30%30%31/0000000042",
        "/article/01/0000000042",
        "/article/0001/0000000042",
        "/article/001/000000042",
        "/article/001/00000000042",
        "/article/001/0000000042/extra",
        "/article//001/0000000042",
        "/article/001/0000000042\u2028",
        "/main/read.nhn?oid=００１&aid=0000000042",
        "/main/read.nhn?oid=%EF%BC%90%EF%BC%90%EF%BC%91&aid=0000000042",
        "/main/read.nhn?oid=001",
        "/main/read.nhn?oid=001&oid=002&aid=0000000042",
        "/main/read.nhn?" + "x=1&" * 200 + "oid=001&aid=0000000042",
    ],
)
def test_ids_of_any_other_shape_are_refused(url: str) -> None:
    assert article_ids(url) is None


def test_an_extra_host_is_accepted_with_exactly_its_port() -> None:
    hosts = frozenset({"127.0.0.1:8123"})
    assert article_ids("http://127.0.0.1:8123/mnews/article/001/0000000042", hosts) == IDS
    assert article_ids("http://127.0.0.1:8124/mnews/article/001/0000000042", hosts) is None
    assert article_ids("http://127.0.0.1/mnews/article/001/0000000042", hosts) is None
    assert article_ids("http://127.0.0.1:8123/mnews/article/001/0000000042") is None


def test_the_ids_of_an_address_we_fetched_do_not_depend_on_its_host() -> None:
    assert article_ids_on_any_host("http://127.0.0.1:8123/article/001/0000000042") == IDS
    assert article_ids_on_any_host("http://127.0.0.1:8123/ranking/article/001/0000000042") is None


def test_the_canonical_address_leads_back_to_the_same_ids() -> None:
    assert canonical_url(*IDS) == "https://n.news.naver.com/mnews/article/001/0000000042"
    assert article_ids(canonical_url(*IDS)) == IDS


@pytest.mark.parametrize(
    ("url", "other"),
    [
        ("https://m.sports.naver.com/article/001/0000000042", True),
        ("https://sports.news.naver.com/news.nhn?oid=001&aid=0000000042", True),
        ("https://ENTERTAIN.naver.com/read?oid=001&aid=0000000042", True),
        ("//m.entertain.naver.com/now", True),
        ("https://n.news.naver.com/article/001/0000000042", False),
        ("https://m.sports.naver.com.evil.example/", False),
        ("https://sports.example/naver.com", False),
        ("/sports/article/001/0000000042", False),
        ("https://[", False),
    ],
)
def test_sports_and_entertainment_hosts_are_told_from_all_others(url: str, other: bool) -> None:
    assert is_on_other_service(url) is other


def test_a_bare_host_is_judged_the_same_way() -> None:
    assert is_other_service_host("m.sports.naver.com")
    assert not is_other_service_host("sports.naver.com.evil.example")
    assert not is_other_service_host("")
