"""The form of an address that came from data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.fetch_errors import FetchRefused
from resources.web_address import MAX_LENGTH, WebAddress, parse
from tests.bad_inputs import bad_inputs


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("http://A.Example", "http://a.example/"),
        ("https://a.example:443/x?y=1#z", "https://a.example/x?y=1"),
        ("http://a.example:443/", "http://a.example:443/"),
        ("http://a.example./", "http://a.example/"),
        ("http://한글.example/뉴스?q=경제 뉴스", "http://xn--bj0bj06e.example/%EB%89%B4%EC%8A%A4?q=%EA%B2%BD%EC%A0%9C%20%EB%89%B4%EC%8A%A4"),
        ("http://a.example/%7Ex%2F", "http://a.example/%7Ex%2F"),
        ("http://a.example?x", "http://a.example/?x"),
        ("http://[2606:4700:0::1111]:80/", "http://[2606:4700::1111]/"),
        ("http://１２７.0.0.1/", "http://127.0.0.1/"),
        ("http://a。example/", "http://a.example/"),
    ],
)  # fmt: skip
def test_an_address_has_one_form(url: str, normal: str) -> None:
    address = parse(url)
    assert address.url == normal
    assert parse(address.url) == address


@pytest.mark.parametrize(
    "url",
    [
        "",
        "a.example",
        "//a.example/",
        "ftp://a.example/",
        "file:///etc/hostname",
        "javascript:alert(1)",
        "http://",
        "http:///x",
        "http://user@a.example/",
        "http://user:pass@a.example/",
        "http://a.example@127.0.0.1/",
        "http://a.example\\@127.0.0.1/",
        "http://a.example:x/",
        "http://a.example:65536/",
        "http://[::1",
        "http://[fe80::1%25eth0]/",
        "http://[v1.x]/",
        "http://a..example/",
        "http://.example/",
        "http://a b.example/",
        "http://a%2eb.example/",
        "http://a.example\t.b/",
        "http://a.example/\r\nHost: b.example",
        "http://a.example/\x00",
        "http://a.example/\ud800",
        "http://\ud800.example/",
        "http://" + "a" * 64 + ".example/",
        "http://" + "a." * 130 + "example/",
        "http://a.example/" + "x" * MAX_LENGTH,
    ],
)
def test_what_is_no_plain_web_address_is_refused(url: str) -> None:
    with pytest.raises(FetchRefused):
        parse(url)


def test_a_location_is_read_from_where_it_stands() -> None:
    address = parse("https://a.example/b/c?d")
    assert address.joined(" e ").url == "https://a.example/b/e"
    assert address.joined("//b.example").url == "https://b.example/"
    assert address.joined("?x=[1]").url == "https://a.example/b/c?x=%5B1%5D"
    with pytest.raises(FetchRefused, match="no address"):
        address.joined("http://[::1/")


TEXT = st.text(st.characters(), max_size=30)
PIECES = st.lists(
    st.sampled_from(
        ["http", "https", ":", "//", "/", "@", "[", "]", "::1", "%", "?", "#", "\\", ".", "127", "\n"]
    )
    | TEXT,
    max_size=12,
).map("".join)


@bad_inputs
@given(url=PIECES | PIECES.map("http://".__add__), location=PIECES)
def test_any_text_is_an_address_or_refused(url: str, location: str) -> None:
    try:
        address = parse(url)
        assert_plain(address)
        assert_plain(address.joined(location))
    except FetchRefused:
        pass


def assert_plain(address: WebAddress) -> None:
    assert address.url.isascii() and address.url.isprintable() and " " not in address.url
    assert len(address.url) > MAX_LENGTH or parse(address.url) == address
