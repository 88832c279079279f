"""From bytes to text, and from elements to text."""

import unicodedata

import pytest

from assets.economy_news.page_text import decode_page, parse_tree, rendered_text, tidy_line, tidy_lines

TEXT = '<meta charset="utf-8"><p>펲시와 똠양꿍, 1조원</p>'


@pytest.mark.parametrize("charset", ["utf-8", "euc-kr", "shift_jis", "nonsense"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp949"])
def test_a_page_is_decoded_by_its_bytes_and_not_by_what_it_claims(encoding: str, charset: str) -> None:
    text = TEXT.replace("utf-8", charset)
    assert decode_page(text.encode(encoding)) == text


def test_a_utf8_page_cut_inside_a_character_is_still_utf8() -> None:
    assert decode_page("금리 인하".encode()[:-1]) == "금리 인"


def test_one_bad_byte_does_not_turn_a_utf8_page_into_cp949() -> None:
    text = decode_page("금리를 내린다 ".encode() + b"\xff" + " 그리고 올린다".encode())
    assert text == "금리를 내린다 \ufffd 그리고 올린다"


def test_a_cp949_page_with_a_bad_byte_stays_cp949() -> None:
    assert decode_page("금리를 내린다".encode("cp949") + b"\xff") == "금리를 내린다\ufffd"


def test_the_tree_keeps_korean_text_whatever_the_page_claims() -> None:
    claimed = '<?xml version="1.0" encoding="euc-kr"?><meta charset="euc-kr"><p>금리\x00 인\ud800하</p>'
    assert tidy_line(rendered_text(parse_tree(claimed))) == "금리 인하"


@pytest.mark.parametrize("text", ["", " ", "<!-- -->", "\x00", "</p>", "<"])
def test_a_page_without_elements_is_an_empty_tree(text: str) -> None:
    assert tidy_line(rendered_text(parse_tree(text))) in ("", "<")


@pytest.mark.parametrize(
    ("html", "lines"),
    [
        ("a<br><br>b", ["a", "b"]),
        ("a\nb\tc", ["a b c"]),
        ("a<span>\n</span>b", ["a b"]),
        ("ab<span>c</span>d<b>e</b>f", ["abcdef"]),
        ("<p>a</p>b<div>c<div>d</div></div>e", ["a", "b", "c", "d", "e"]),
        ("a<!-- x -->b<script>y</script>c<?z?>d", ["abcd"]),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", ["a b", "c"]),
        ("a\u2028b\u2029c", ["a", "b", "c"]),
        ("a&nbsp;&#12288; b", ["a b"]),
    ],
)
def test_lines_break_where_a_browser_breaks_them(html: str, lines: list[str]) -> None:
    assert tidy_lines(rendered_text(parse_tree(f"<body>{html}</body>"))) == lines


def test_what_follows_an_element_is_not_its_text() -> None:
    root = parse_tree("<body>앞<b>안<i>속</i></b>뒤</body>")
    assert rendered_text(root.find(".//b")) == "안속"


def test_a_skipped_picture_separates_what_stood_around_it() -> None:
    root = parse_tree('<body>앞<span class="x photo">그림<b>설명</b></span>뒤</body>')
    assert tidy_lines(rendered_text(root, skipped_classes=frozenset({"photo"}))) == ["앞", "뒤"]


def test_a_tidy_line_is_nfc_and_printable_and_keeps_emoji() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    messy = "  " + unicodedata.normalize("NFD", "금리") + "\x00\x07\u200b\ud800 \u3000\n" + family + "\ufeff "
    assert tidy_line(messy) == f"금리 {family}"
