"""Which groups of a robots.txt are ours, and that a hostile one stays small."""

import tracemalloc

import pytest
from protego import Protego

from resources.robots import MAX_ROBOTS_BYTES, rules_for


def may(text: str, url: str = "http://a.example/x") -> bool:
    return Protego.parse(rules_for("GranaryBot", text)).can_fetch(url, "GranaryBot")


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("", True),
        ("User-agent: *\nDisallow: /", False),
        ("User-agent: granarybot\nDisallow: /", False),
        ("User-agent: GranaryBot/2.0\nDisallow: /", False),
        ("useragent GranaryBot\nDisallow: /", False),
        ("User-agent: Granary\nDisallow: /", True),
        ("User-agent: OtherBot\nDisallow: /", True),
        ("User-agent: OtherBot\nUser-agent: GranaryBot\nDisallow: /", False),
        ("User-agent: OtherBot\nDisallow: /\nUser-agent: *\nAllow: /", True),
        ("User-agent: *\nDisallow: /\nUser-agent: GranaryBot\nAllow: /", True),
        ("User-agent: 다른 로봇\nDisallow: /", True),
        ("User-agent: *\nDisallow: /\nAllow: /x", True),
        ("User-agent: *\nDisallow: /*x$", False),
    ],
)
def test_the_group_of_our_name_counts_else_the_one_for_all(text: str, allowed: bool) -> None:
    assert may(text) is allowed


def test_thousands_of_names_before_thousands_of_rules_cost_little() -> None:
    names = "".join(f"User-agent: g{n}\n" for n in range(14_000))
    rules = "".join(f"Disallow: /{n}\n" for n in range(14_000))
    text = f"{names}User-agent: *\n{rules}"
    assert len(text) < MAX_ROBOTS_BYTES
    tracemalloc.start()
    try:
        assert not may(text, "http://a.example/7")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 50_000_000
