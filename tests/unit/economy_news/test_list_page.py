"""Section lists (contract: "List pages")."""

import pytest

from assets.economy_news.list_page import ListLayoutChanged, ListPage, parse_list_fragment, parse_list_page
from tests.unit.economy_news import saved_pages


def parse(name: str) -> ListPage:
    page = saved_pages.page(name)
    return parse_list_fragment(page.decode()) if "fragment" in name else parse_list_page(page)


def latest(links: str) -> bytes:
    return f'<html><body><div class="section_latest">{links}</div></body></html>'.encode()


@pytest.mark.parametrize("name", saved_pages.names("list_*"))
def test_a_saved_list_parses_to_its_expected_value(name: str) -> None:
    expected = saved_pages.expected(name)
    if "error" in expected:
        with pytest.raises(ListLayoutChanged):
            parse(name)
    else:
        ids = tuple((oid, aid) for oid, aid in expected["article_ids"])
        assert parse(name) == ListPage(ids, expected["next_cursor"], expected["has_next"])


def test_headlines_and_ranking_are_not_listed() -> None:
    listed = parse("list_first_page").article_ids
    assert ("911", "0000000001") not in listed  # a headline, of the same item class
    assert ("912", "0000000003") not in listed  # in the ranking, below the list


def test_an_article_that_is_also_a_headline_is_listed_once_at_its_place_in_the_list() -> None:
    assert parse("list_first_page").article_ids.index(("901", "0000000102")) == 1


def test_comment_links_are_skipped() -> None:
    page = latest('<a href="/article/comment/001/0000000002"></a><a href="/article/001/0000000001"></a>')
    assert parse_list_page(page).article_ids == (("001", "0000000001"),)


def test_links_of_other_hosts_are_skipped_unless_the_host_is_ours() -> None:
    page = latest('<a href="http://127.0.0.1:8123/mnews/article/001/0000000001"></a>')
    assert parse_list_page(page).article_ids == ()
    ours = frozenset({"127.0.0.1:8123"})
    assert parse_list_page(page, extra_hosts=ours).article_ids == (("001", "0000000001"),)
    fragment = page.decode().replace("section_latest", "section_latest_article")
    assert parse_list_fragment(fragment, extra_hosts=ours).article_ids == (("001", "0000000001"),)


@pytest.mark.parametrize(
    ("state", "cursor"),
    [
        ('data-has-next="true" data-cursor="20260302091500"', "20260302091500"),
        ('data-has-next="false" data-cursor="20260302091500"', None),
        ('data-has-next="true" data-cursor=""', None),
        ('data-has-next="true"', None),
        ('data-cursor="20260302091500"', None),
    ],
)
def test_a_list_goes_on_only_with_both_a_promise_and_a_cursor(state: str, cursor: str | None) -> None:
    page = parse_list_fragment(f'<div class="section_latest_article _CONTENT_LIST" {state}></div>')
    assert (page.next_cursor, page.has_next) == (cursor, cursor is not None)


@pytest.mark.parametrize(
    "html", [b"", b" ", b"<html></html>", b'<p class="section_latest"></p>', b"\xff\xfe\x00"]
)
def test_a_page_without_the_list_is_never_an_empty_list(html: bytes) -> None:
    with pytest.raises(ListLayoutChanged):
        parse_list_page(html)


@pytest.mark.parametrize("html", ["", "<ul></ul>", '<div class="section_latest"></div>', "{}"])
def test_a_fragment_without_its_root_is_never_an_empty_list(html: str) -> None:
    with pytest.raises(ListLayoutChanged):
        parse_list_fragment(html)


def test_a_class_that_only_contains_the_name_is_not_the_list() -> None:
    page = latest("").replace(b"section_latest", b"section_latest_article x-section_latest")
    with pytest.raises(ListLayoutChanged):
        parse_list_page(page)


def test_only_a_div_is_the_list() -> None:
    page = latest('<a href="/article/001/0000000001"></a>').replace(b"div", b"section")
    with pytest.raises(ListLayoutChanged):
        parse_list_page(page)


def test_an_empty_list_is_an_empty_page() -> None:
    assert parse_list_page(latest("")) == ListPage((), None, False)


def test_a_cp949_list_is_read_like_any_other() -> None:
    page = latest('<a href="/article/001/0000000001">한글</a>').decode().encode("cp949")
    assert parse_list_page(page).article_ids == (("001", "0000000001"),)
