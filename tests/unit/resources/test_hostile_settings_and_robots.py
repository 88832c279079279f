"""Generated robots.txt files, addresses of databases, names of vector spaces: read or refused."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from protego import Protego

from resources.embedding_profile import read_profile
from resources.errors import ServiceNotConfigured
from resources.openai_api import safe_code
from resources.postgres import check_database_url
from resources.robots import rules_for
from tests.bad_inputs import bad_inputs

TEXT = st.text(st.characters(), max_size=15)  # lone surrogates included
LINES = st.lists(
    st.sampled_from(
        [
            *"/*$%#:?=\n\t ",
            "User-agent: ",
            "user agent",
            "GranaryBot\n",
            "Disallow: ",
            "Allow: ",
            "Sitemap: http://[::1",
            "Crawl-delay: 1e999\n",
            "Crawl-delay: nan\n",
            "Request-rate: 1/0s 2500-9999\n",
            "Request-rate: 9/9999999999d\n",
            "Visit-time: 9999-\n",
            "Host: \n",
            "%zz%C3%28",
            "\r",
            "\u2028",
            "\x00",
            "\ufeff",
        ]
    )
    | TEXT,
    max_size=30,
).map("".join)
PATHS = st.lists(st.sampled_from([*"/*$%?=", "%2F", "%zz", "x"]) | TEXT, max_size=8).map("".join)


@bad_inputs
@given(text=LINES, path=PATHS)
@example(text="User-agent: *\nCrawl-delay: 1e999\nRequest-rate: 1/0s 2500-9999\nDisallow: /", path="x")
@example(text="User-agent: *\nAllow: /\nCrawl-delay: nan\n", path="x")
def test_what_no_robots_txt_disallows_is_allowed(text: str, path: str) -> None:
    whole = text.encode("utf-8", "replace").decode()
    rules = Protego.parse(rules_for("GranaryBot", whole))
    url = f"http://a.example/{path}".encode("utf-8", "replace").decode()
    assert rules.can_fetch(url, "GranaryBot") or "disallow" in whole.lower()


@bad_inputs
@given(text=LINES)
def test_what_stands_in_front_of_it_takes_nothing_from_a_group_of_ours(text: str) -> None:
    whole = text.encode("utf-8", "replace").decode()
    after = f"{whole}\nSitemap: /x\nUser-agent: GranaryBot\nDisallow: /secret\n"
    if "allow" not in whole.lower():  # an address that is allowed by name may be shorter
        rules = Protego.parse(rules_for("GranaryBot", after))
        assert not rules.can_fetch("http://a.example/secret", "GranaryBot")


@pytest.mark.parametrize("rule", ["/" + "*a" * 5_000, "/" + "*" * 10_000, "/a*" * 5_000 + "$"])
def test_a_rule_of_many_wildcards_costs_no_minutes(rule: str) -> None:
    rules = Protego.parse(rules_for("GranaryBot", f"User-agent: *\nDisallow: {rule}\n"))
    started = time.process_time()
    rules.can_fetch("http://a.example/" + "a" * 2_000, "GranaryBot")
    assert time.process_time() - started < 5


ADDRESSES = st.lists(
    st.sampled_from(["postgresql", "postgres", "://", ":", "@", "/", "[", "]", "?", "#", "%", "99999", "::1"])
    | TEXT,
    max_size=10,
).map("".join)


@bad_inputs
@given(url=ADDRESSES | ADDRESSES.map("postgresql://u:secret@".__add__))
def test_any_address_of_a_database_is_taken_or_refused_without_being_told(url: str) -> None:
    try:
        check_database_url(url)
    except ServiceNotConfigured as refused:
        problem = str(refused)
    else:
        return
    assert "secret" not in problem


PROFILES = st.lists(st.sampled_from([*"-v.0٣", "openai", "1536", "cosine", "-v1", "\n"]) | TEXT).map("".join)


@bad_inputs
@given(name=PROFILES)
@example(name="openai-m-٣-cosine-v1")
def test_any_name_is_a_vector_space_or_a_value_error(name: str) -> None:
    try:
        profile = read_profile(name)
    except ValueError:
        return
    assert profile.model and 0 < profile.dimensions < 100_000


@bad_inputs
@given(code=TEXT | st.integers() | st.none() | st.from_regex(r"[A-Za-z0-9_.-]{1,70}\n?"), key=TEXT)
def test_a_code_can_be_stored_and_does_not_hold_the_key(code: object, key: str) -> None:
    safe = safe_code(code, key)
    assert safe == "other" or (safe == code and safe.isascii() and len(safe) <= 60)
    assert not key or key not in safe or safe == "other"
