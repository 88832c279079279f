"""Addresses from data: where a fetch goes, what it takes, and when it ends."""

import threading
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from local_stack.front_pages.sites import SITES, domains
from resources.errors import FetchFailed
from resources.guarded_fetch import (
    ANY_TYPE,
    AnsweredBadly,
    FetchRefused,
    GuardedFetcher,
    GuardedFetchResource,
)
from tests.integration.resources.scripted_server import ScriptedServer, always, answer, scripted
from tests.integration.resources.served_front_pages import (
    USER_AGENT,
    NotingNetwork,
    ServedSites,
    served_front_pages,
)

MUCH_LATER = 5.0
"""Seconds: a fetch that takes longer met no deadline at all."""

PAGE = answer(200, b"<title>x</title>", content_type="text/html")
PUBLIC = "8.8.8.8"


@pytest.fixture(scope="module")
def sites() -> Iterator[ServedSites]:
    with served_front_pages() as served:
        yield served


@pytest.fixture
def fetcher(sites: ServedSites) -> GuardedFetcher:
    return GuardedFetcher(USER_AGENT, deadline_seconds=MUCH_LATER, local_test_sites=sites.address)


@pytest.fixture
def hurried(sites: ServedSites) -> GuardedFetcher:
    return GuardedFetcher(USER_AGENT, deadline_seconds=0.4, local_test_sites=sites.address)


def at(server: ScriptedServer) -> str:
    return server.url.removeprefix("http://")


def test_every_good_site_is_fetched_by_sixteen_threads_one_request_a_host_at_a_time(
    sites: ServedSites, fetcher: GuardedFetcher
) -> None:
    hosts = sorted(domains() * 3)
    with ThreadPoolExecutor(16) as pool:
        pages = list(pool.map(lambda host: fetcher.get(f"http://{host}/"), hosts))
    for host, page in zip(hosts, pages, strict=True):
        assert (page.url, page.status, page.truncated) == (f"http://{host}/", 200, False)
        assert (page.content_type, page.charset) == ("text/html", "utf-8")
        assert f"<h1>{SITES[host].title[:5]}".encode() in page.body
    assert {sites.seen.most_at_once[host] for host in hosts} == {1}


def test_a_redirect_to_another_public_site_is_followed(fetcher: GuardedFetcher) -> None:
    asked: list[str] = []
    page = fetcher.get("http://redirect-other.test/", ask_before=asked.append)
    assert page.url == "http://hanbit-news.test/"
    assert asked == ["http://redirect-other.test/", "http://hanbit-news.test/"]


def test_test_sites_speak_no_tls_and_say_so_at_once(hurried: GuardedFetcher) -> None:
    with pytest.raises(FetchFailed, match="TLS"):
        hurried.get("https://hanbit-news.test/")


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("redirect-file.test", "http and https"),
        ("redirect-broken.test", "no address"),
        ("redirect-loop.test", "more than 5 redirects"),
        ("redirect-forty.test", "more than 5 redirects"),
        ("image.test", "content type is 'image/png'"),
        ("untyped.test", "content type is ''"),
        ("brotli.test", "encoding 'br'"),
    ],
)
def test_what_no_second_try_would_change_is_refused(fetcher: GuardedFetcher, host: str, reason: str) -> None:
    with pytest.raises(FetchRefused, match=reason):
        fetcher.get(f"http://{host}/")


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("not-gzip.test", "not gzip"),
        ("cut-short.test", "RemoteProtocolError"),
        ("large-header.test", "RemoteProtocolError"),
        ("missing.test", "status 404"),
        ("down.test", "status 503"),
    ],
)
def test_what_may_be_better_later_is_a_failed_fetch(fetcher: GuardedFetcher, host: str, reason: str) -> None:
    with pytest.raises(FetchFailed, match=reason) as caught:
        fetcher.get(f"http://{host}/")
    assert ("status" in reason) == isinstance(caught.value, AnsweredBadly)


@pytest.mark.parametrize("host", ["hang.test", "drip-body.test", "drip-headers.test"])
def test_a_site_that_takes_its_time_ends_at_the_deadline(hurried: GuardedFetcher, host: str) -> None:
    begun = time.monotonic()
    with pytest.raises(FetchFailed, match=r"within 0\.4 s"):
        hurried.get(f"http://{host}/")
    assert 0.3 < time.monotonic() - begun < MUCH_LATER / 2


def test_slow_redirects_share_one_deadline() -> None:
    def slow(server: ScriptedServer, request: str) -> Iterator[bytes]:
        server.ended.wait(0.2)
        yield answer(302, location="/again")

    with scripted(slow) as server:
        fetcher = GuardedFetcher(USER_AGENT, deadline_seconds=0.5, local_test_sites=at(server))
        with pytest.raises(FetchFailed, match=r"within 0\.5 s"):
            fetcher.get("http://slow.test/")
        assert 1 < len(server.requests) < 5


def test_a_resolver_and_a_handshake_that_hang_end_at_the_deadline() -> None:
    def hang(server: ScriptedServer, request: str) -> Iterator[bytes]:
        server.ended.wait(MUCH_LATER)
        yield b""

    over = threading.Event()

    def slow_resolver(host: str, port: int) -> Sequence[str]:
        over.wait(MUCH_LATER)
        return [PUBLIC]

    begun = time.monotonic()
    with scripted(hang) as server:
        network = NotingNetwork(server.url)
        silent = GuardedFetcher(
            USER_AGENT, deadline_seconds=0.2, resolve=lambda host, port: [PUBLIC], network=network
        )
        with pytest.raises(FetchFailed, match=r"within 0\.2 s"):
            silent.get("https://a.example/")
        lost = GuardedFetcher(USER_AGENT, deadline_seconds=0.2, resolve=slow_resolver, network=network)
        with pytest.raises(FetchFailed, match="not resolved in time"):
            lost.get("http://a.example/")
    over.set()
    assert time.monotonic() - begun < MUCH_LATER / 2


@pytest.mark.parametrize("host", ["large.test", "endless.test", "bomb.test"])
def test_a_body_beyond_the_cap_is_cut_there_and_never_held_whole(fetcher: GuardedFetcher, host: str) -> None:
    fetcher.get("http://bomb.test/")  # the site makes its bomb once
    tracemalloc.start()
    try:
        page = fetcher.get(f"http://{host}/")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(page.body), page.truncated) == (1_000_000, True)
    assert most < 20_000_000


def test_bytes_that_count_for_no_body_have_an_end_too() -> None:
    def empty_blocks(server: ScriptedServer, request: str) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: deflate\r\n\r\n\x78\x9c"
        while not server.ended.is_set():
            yield b"\x00\x00\x00\xff\xff" * 10_000

    with scripted(empty_blocks) as server:
        fetcher = GuardedFetcher(USER_AGENT, local_test_sites=at(server))
        with pytest.raises(FetchRefused, match="sends more than"):
            fetcher.get("http://blocks.test/")


def test_any_type_is_taken_where_the_caller_says_so(fetcher: GuardedFetcher) -> None:
    page = fetcher.get("http://hanbit-news.test/robots.txt", accepted_types=ANY_TYPE, max_body_bytes=10)
    assert (page.content_type, page.body, page.truncated) == ("text/plain", b"User-agent", True)


def test_the_wait_for_a_busy_host_costs_nothing_of_ones_deadline() -> None:
    def unhurried(server: ScriptedServer, request: str) -> Iterator[bytes]:
        server.ended.wait(0.3)
        yield PAGE

    with scripted(unhurried) as server:
        fetcher = GuardedFetcher(USER_AGENT, deadline_seconds=0.7, local_test_sites=at(server))
        with ThreadPoolExecutor(4) as pool:
            pages = list(pool.map(fetcher.get, ["http://busy.test/"] * 4))
    assert [page.status for page in pages] == [200] * 4


def test_two_sites_that_redirect_to_each_other_do_not_wait_for_each_other() -> None:
    both = threading.Barrier(2, timeout=MUCH_LATER)

    def crossing(server: ScriptedServer, request: str) -> Iterator[bytes]:
        if "GET /end" in request:
            yield PAGE
        else:
            both.wait()
            other = "b" if "Host: a.test" in request else "a"
            yield answer(302, location=f"http://{other}.test/end")

    with scripted(crossing) as server:
        fetcher = GuardedFetcher(USER_AGENT, local_test_sites=at(server))
        with ThreadPoolExecutor(2) as pool:
            pages = list(pool.map(fetcher.get, ["http://a.test/", "http://b.test/"]))
    assert [page.url for page in pages] == ["http://b.test/end", "http://a.test/end"]


def test_the_resource_shows_the_contact_and_closes_its_fetcher() -> None:
    with scripted(always(PAGE)) as server:
        resource = GuardedFetchResource(contact="ops@granary.example", local_test_sites=at(server))
        with resource.open() as fetcher:
            fetcher.get("http://a.test/")
        assert "User-Agent: GranaryBot/1.0 (ops@granary.example)\r\n" in server.requests[0]
        with pytest.raises(RuntimeError, match="closed"):
            fetcher.get("http://a.test/")
