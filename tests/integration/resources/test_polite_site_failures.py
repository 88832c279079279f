"""What a crawled site can do wrong: statuses, silence, size, broken bodies, redirects."""

import gzip
import time
import tracemalloc
from collections.abc import Iterator

import pytest

from resources.errors import CrawlNotAllowed, FetchFailed
from resources.polite_site import MAX_PAGE_BYTES, Politeness
from tests.integration.resources.scripted_server import (
    Script,
    ScriptedServer,
    always,
    answer,
    scripted,
    unused_address,
)
from tests.integration.resources.visits import PAGES, PATH, PATIENCE, Visits, asked, with_robots
from tests.integration.stand_ins import StandIn

MUCH_LATER = 10.0
"""Seconds: a test that takes longer met no time-out at all."""


@pytest.mark.parametrize("status", [201, 204, 304, 400, 401, 500, 502, 503])
def test_another_status_is_a_failed_fetch_that_pauses_nobody(
    site: StandIn, visit: Visits, status: int
) -> None:
    site.fault(path=PAGES, status=status, body="", times=1)
    polite = visit(site.url)
    with pytest.raises(FetchFailed, match=f"status {status}"):
        polite.get(PATH)
    assert polite.get(PATH).status == 200


def test_a_host_that_does_not_answer_is_a_failed_fetch(site: StandIn, visit: Visits) -> None:
    polite = visit(site.url)
    polite.get(PATH)
    polite.base_url = f"http://{unused_address()}"
    with pytest.raises(FetchFailed, match="ConnectError"):
        polite.get(PATH)


def test_a_page_that_breaks_off_is_a_failed_fetch(site: StandIn, visit: Visits) -> None:
    site.fault(path=PAGES, truncate_bytes=100)
    with pytest.raises(FetchFailed, match="RemoteProtocolError"):
        visit(site.url).get(PATH)


def hang(server: ScriptedServer, request: str) -> Iterator[bytes]:
    server.ended.wait(MUCH_LATER)
    yield b""


def hang_in_the_body(server: ScriptedServer, request: str) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n<html>"
    server.ended.wait(MUCH_LATER)


def drip(server: ScriptedServer, request: str) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    while not server.ended.wait(PATIENCE / 10):
        yield b"."


@pytest.mark.parametrize("script", [hang, hang_in_the_body, drip])
def test_a_server_that_never_ends_its_answer_is_left_in_time(visit: Visits, script: Script) -> None:
    with scripted(with_robots(script)) as server:
        started = time.monotonic()
        with pytest.raises(FetchFailed, match=rf"within ({PATIENCE:g} s|the time-out)"):
            visit(server.url).get(PATH)
        # A pause in the middle of a body has a time-out of its own.
        assert time.monotonic() - started < 2 * PATIENCE + 2


def test_a_page_of_ten_megabytes_is_refused_and_one_at_the_limit_is_not(site: StandIn, visit: Visits) -> None:
    site.fault(path=PAGES, pad_to_bytes=10_000_000, times=1)
    site.fault(path=PAGES, pad_to_bytes=MAX_PAGE_BYTES)
    polite = visit(site.url)
    with pytest.raises(FetchFailed, match="larger than 5,000,000 bytes"):
        polite.get(PATH)
    assert len(polite.get(PATH).body) == MAX_PAGE_BYTES


def test_a_page_without_a_length_that_never_ends_is_refused(visit: Visits) -> None:
    def pour(server: ScriptedServer, request: str) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        while not server.ended.is_set():
            yield b"." * 500_000

    with scripted(with_robots(pour)) as server, pytest.raises(FetchFailed, match=r"larger than|time-out"):
        visit(server.url).get(PATH)


def test_a_gzip_bomb_is_refused_before_it_fills_the_memory(site: StandIn, visit: Visits) -> None:
    site.fault(path=PAGES, gzip_bomb_bytes=300_000_000)
    polite = visit(site.url)
    polite._politeness = Politeness("crawler@example.example", 30, 0, 0, 0)  # the bomb takes long to make
    polite._client.timeout = 30
    tracemalloc.start()
    try:
        with pytest.raises(FetchFailed, match="larger than 5,000,000 bytes"):
            polite.get(PATH)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 150_000_000


def test_a_compressed_page_is_read_and_a_broken_one_is_a_failed_fetch(visit: Visits) -> None:
    packed = gzip.compress("한국은행".encode())
    for body, fails in ((packed, False), (b"no gzip at all", True)):
        with scripted(with_robots(always(answer(200, body, content_encoding="gzip")))) as server:
            if fails:
                with pytest.raises(FetchFailed, match="DecodingError"):
                    visit(server.url).get(PATH)
            else:
                assert visit(server.url).get(PATH).body.decode() == "한국은행"


def test_a_redirect_to_another_host_is_handed_back_and_never_followed(site: StandIn, visit: Visits) -> None:
    with scripted(always(answer(200, b"elsewhere"))) as other:
        for target in (f"{other.url}/sports", f"//{other.url.removeprefix('http://')}/sports"):
            site.fault(path=PAGES, redirect=target, times=1)
            page = visit(site.url).get(PATH)
            assert (page.status, page.body, page.leaves_to) == (302, b"", f"{other.url}/sports")
        assert other.requests == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_inside_the_site_is_followed(site: StandIn, visit: Visits, status: int) -> None:
    site.fault(path="^/old", redirect=PATH, status=status)
    page = visit(site.url).get("/old")
    assert (page.status, page.url) == (200, site.url + PATH)


def test_redirects_inside_the_site_are_followed_three_times_at_most(site: StandIn, visit: Visits) -> None:
    for number in range(1, 4):
        site.fault(path=f"^/hop{number}$", redirect=f"/hop{number + 1}")
    site.fault(path="^/hop4$", redirect=PATH, skip=1)
    site.fault(path="^/hop4$", status=200, body="reached")
    assert visit(site.url).get("/hop1").body == b"reached"
    with pytest.raises(FetchFailed, match="more than 3 redirects"):
        visit(site.url).get("/hop1")
    assert asked(site) == ["/robots.txt", "/hop1", "/hop2", "/hop3", "/hop4"] * 2


def test_robots_is_asked_before_every_hop(site: StandIn, visit: Visits) -> None:
    site.post("robots", text="User-agent: *\nDisallow: /breakingnews\n")
    site.fault(path="^/old", redirect=PATH)
    with pytest.raises(CrawlNotAllowed, match="/breakingnews"):
        visit(site.url).get("/old")
    assert asked(site) == ["/robots.txt", "/old"]


@pytest.mark.parametrize("location", ["http://[bad", "//[::1", "http://host:port/", "ftp://{host}/x"])
def test_a_redirect_to_no_web_address_is_a_failed_fetch(site: StandIn, visit: Visits, location: str) -> None:
    host = site.url.removeprefix("http://")
    site.fault(path=PAGES, redirect=location.format(host=host))
    with pytest.raises(FetchFailed):
        visit(site.url).get(PATH)


def test_a_redirect_without_an_address_is_a_failed_fetch(visit: Visits) -> None:
    with scripted(with_robots(always(answer(302)))) as server:
        with pytest.raises(FetchFailed, match="status 302"):
            visit(server.url).get(PATH)
        assert len(server.requests) == 2
