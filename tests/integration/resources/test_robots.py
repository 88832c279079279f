"""robots.txt of any origin, read through the guarded fetch (RFC 9309)."""

from collections.abc import Iterator

import pytest

from local_stack.front_pages.sites import DISALLOWED
from resources.errors import CrawlNotAllowed, FetchFailed
from resources.guarded_fetch import AnsweredBadly, GuardedFetcher
from resources.robots import MAX_ROBOTS_BYTES, Robots
from tests.integration.resources.scripted_server import ScriptedServer, always, answer, scripted
from tests.integration.resources.served_front_pages import USER_AGENT, ServedSites, served_front_pages


@pytest.fixture(scope="module")
def sites() -> Iterator[ServedSites]:
    with served_front_pages() as served:
        yield served


@pytest.fixture
def fetcher(sites: ServedSites) -> GuardedFetcher:
    return GuardedFetcher(USER_AGENT, local_test_sites=sites.address)


def test_a_file_is_read_once_for_each_origin(sites: ServedSites, fetcher: GuardedFetcher) -> None:
    robots = Robots(fetcher)
    assert all(robots.may_fetch(f"http://gaon-market.test{path}") for path in ("/", "/section/1", "/?x"))
    assert sites.seen.requests.count(("gaon-market.test", "/robots.txt")) == 1


def test_a_site_that_disallows_all_is_not_fetched(sites: ServedSites, fetcher: GuardedFetcher) -> None:
    robots = Robots(fetcher)
    assert not robots.may_fetch(f"http://{DISALLOWED}/")
    for url in (f"http://{DISALLOWED}/", "http://redirect-disallowed.test/"):
        with pytest.raises(CrawlNotAllowed, match=DISALLOWED):
            fetcher.get(url, ask_before=robots.require)
    assert (DISALLOWED, "/") not in sites.seen.requests


def test_without_a_robots_txt_all_is_allowed(fetcher: GuardedFetcher) -> None:
    assert Robots(fetcher).may_fetch("http://robots-missing.test/")


def test_a_robots_txt_that_cannot_be_read_allows_nothing_yet(fetcher: GuardedFetcher) -> None:
    robots = Robots(fetcher)
    with pytest.raises(AnsweredBadly, match="status 503"):
        robots.may_fetch("http://robots-down.test/")
    with pytest.raises(FetchFailed, match="TLS"):
        robots.may_fetch("https://hanbit-news.test/")


def robots_of(text: bytes) -> bytes:
    return answer(200, text, content_type="application/octet-stream")


def test_a_byte_order_mark_and_another_content_type_do_not_matter() -> None:
    with scripted(always(robots_of(b"\xef\xbb\xbfUser-agent: *\nDisallow: /x"))) as server:
        robots = robots_at(server)
        assert not robots.may_fetch("http://a.test/x")
        assert robots.may_fetch("http://a.test/y")


def test_of_a_file_beyond_the_cap_the_whole_lines_before_it_count() -> None:
    rules = b"User-agent: *\nDisallow: /x\n"
    filler = b"#" * (MAX_ROBOTS_BYTES - len(rules) - len(b"\nDisallow: /y"))
    with scripted(always(robots_of(rules + filler + b"\nDisallow: /yes\n"))) as server:
        robots = robots_at(server)
        assert not robots.may_fetch("http://a.test/x")
        assert robots.may_fetch("http://a.test/y")


def robots_at(server: ScriptedServer) -> Robots:
    address = server.url.removeprefix("http://")
    return Robots(GuardedFetcher(USER_AGENT, local_test_sites=address))
