"""Which registrable domain an address has, and which have none (contract: "Processing a file")."""

import re
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assets.raw_files.domains import registrable_domain
from tests.bad_inputs import bad_inputs


@pytest.mark.parametrize(
    ("value", "domain"),
    [
        ("hanbit-news.test", "hanbit-news.test"),
        ("https://www.hanbit-news.test/economy/42?page=1#top", "hanbit-news.test"),
        ("http://WWW.Example.COM:8080", "example.com"),
        ("HTTPS://example.com.", "example.com"),
        ("//img.example.com/logo.png", "example.com"),
        ("example.com/about", "example.com"),
        ("example.com:443", "example.com"),
        ("example.com?from=list", "example.com"),
        ("https://example.com/@someone", "example.com"),
        ("https://example.com#@other.example", "example.com"),
        ("https://example.com/검색 결과", "example.com"),
        ("news.maeil.co.kr", "maeil.co.kr"),
        ("a.b.c.maeil.co.kr", "maeil.co.kr"),
        ("www.city.kobe.jp", "city.kobe.jp"),
        ("a.b.example.ck", "b.example.ck"),
        ("www.ck", "www.ck"),
        ("my_shop.example.com", "example.com"),
        ("r3---sn-a.example.com", "example.com"),
        ("1.2.3.4.example.com", "example.com"),
        (f"{'x' * 63}.com", f"{'x' * 63}.com"),
    ],
)
def test_an_address_gives_what_its_owner_registered(value: str, domain: str) -> None:
    assert registrable_domain(value) == domain


@pytest.mark.parametrize(
    "value",
    [
        "https://www.한글.한국/",
        unicodedata.normalize("NFD", "한글.한국"),
        "한글。한국",
        "xn--bj0bj06e.xn--3e0b707e",
        "www.XN--BJ0BJ06E.xn--3e0b707e.",
    ],
)
def test_a_domain_of_another_script_has_one_ascii_form(value: str) -> None:
    assert registrable_domain(value) == "xn--bj0bj06e.xn--3e0b707e"


@pytest.mark.parametrize(
    ("value", "domain"),
    [
        ("ｅｘａｍｐｌｅ．ｃｏｍ", "example.com"),
        ("faß.de", "xn--fa-hia.de"),
        ("exam\u00adple.com", "example.com"),
    ],
)
def test_look_alikes_that_uts46_maps_are_mapped(value: str, domain: str) -> None:
    assert registrable_domain(value) == domain


def test_whoever_has_a_name_below_a_private_suffix_owns_a_domain() -> None:
    assert registrable_domain("https://blog.someone.github.io/post") == "someone.github.io"
    assert registrable_domain("github.io") is None


@pytest.mark.parametrize(
    "value",
    [
        "192.0.2.7",
        "http://192.0.2.7:80/x",
        "192.0.2.7.",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "http://0X7F.1/",
        "017700000001",
        "0177.0.0.01",
        "１２７．０．０．１",
        "a.b.0x",
        "[::1]",
        "http://[2001:db8::1]:80/",
        "2001:db8::1",
        "::ffff:192.0.2.7",
    ],
)
def test_an_ip_address_in_any_notation_has_none(value: str) -> None:
    assert registrable_domain(value) is None


@pytest.mark.parametrize(
    "value",
    [
        "localhost",
        "http://localhost:3000/",
        "localhost.",
        "db.localhost",
        "intranet",
        "com",
        "co.kr",
        "한국",
        "example.ck",
        "test",
        "http://com/",
    ],
)
def test_single_labels_and_public_suffixes_have_none(value: str) -> None:
    assert registrable_domain(value) is None


@pytest.mark.parametrize(
    "value",
    [
        "https://example.com@evil.test/",
        "https://example.com:80@evil.test/",
        "https://user:secret@example.com/",
        "someone@example.com",
        "mailto:someone@example.com",
        "https://evil.test\\@example.com/",
        "https://example.com\\.evil.test/",
        "https://example.com%2eevil.test/",
        "https://example.com／evil.test",
        "https:example.com",
        "https:///example.com",
        "http://http://example.com",
        "ftp://example.com/",
        "javascript://example.com/%0aalert(1)",
        "data:text/html,example.com",
        "example.com:80:80",
        "example.com:８０",
    ],
)
def test_an_address_that_readers_may_take_for_different_hosts_has_none(value: str) -> None:
    assert registrable_domain(value) is None


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        ".",
        "https://",
        "exam ple.com",
        " example.com",
        "example.com\n",
        "exa\tmple.com",
        "https://example.com/\x00",
        "example\x7f.com",
        "example.com\x85",
        "example.com\u2028",
        "\u202eexample.com",
        "\ud800.com",
        "example..com",
        ".example.com",
        "example.com..",
        "-example.com",
        "example-.com",
        "*.example.com",
        "my_shop.com",
        "xn--.com",
        "xn--a.com",
        f"{'x' * 64}.com",
        f"{'한' * 60}.com",
        ".".join(["x" * 49] * 6) + ".com",
        "x" * 10_000_000,
        "a." * 5_000_000 + "com",
    ],
    ids=lambda value: ascii(value[:40]),
)
def test_what_is_no_name_has_none(value: str) -> None:
    assert registrable_domain(value) is None


def test_a_name_has_253_characters_at_most() -> None:
    longest = ".".join(["x" * 49] * 5) + ".abc"
    assert len(longest) == 253
    assert registrable_domain(longest) == registrable_domain(f"{longest}.") == f"{'x' * 49}.abc"
    assert registrable_domain(f"{longest}d") is None


def test_nothing_is_imported_or_read_before_the_first_domain() -> None:
    loaded = (
        "import sys, assets.raw_files.domains; "
        "print({'publicsuffixlist', 'idna'} & {name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


REGISTRABLE = re.compile(
    r"(?=.{3,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9-]*[a-z][a-z0-9-]*"
)
PIECES = [
    "https://",
    "http:",
    "//",
    "/",
    "@",
    ":",
    ".",
    "..",
    "。",
    "\\",
    "?",
    "#",
    "%2e",
    "[",
    "]",
    "-",
    "_",
    " ",
]
NAMES = [
    "com",
    "co.kr",
    "test",
    "github.io",
    "xn--",
    "xn--3e0b707e",
    "한글",
    "localhost",
    "127",
    "0x7f",
    "\x00",
]
TEXT = st.text(st.characters(), max_size=5)  # lone surrogates included
HOSTS = st.lists(st.sampled_from(NAMES) | TEXT | st.text("abcXYZ019-_", max_size=5), max_size=6).map(".".join)
ADDRESSES = st.lists(st.sampled_from([*PIECES, *NAMES]) | TEXT | HOSTS, max_size=12).map("".join)


@bad_inputs
@example("com.0-0")
@given(HOSTS | ADDRESSES)
def test_any_text_has_none_or_a_registrable_name_that_stands_for_itself(value: str) -> None:
    domain = registrable_domain(value)
    if domain is not None:
        assert REGISTRABLE.fullmatch(domain)
        assert registrable_domain(domain) == domain
        assert registrable_domain(f"https://www.{domain}/") == domain
