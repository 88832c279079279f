"""Manners towards a crawled site: permission, refusals and pace, over the stand-in and the real database."""

from collections.abc import Callable
from itertools import pairwise

import psycopg
import pytest

from resources.errors import CrawlNotAllowed, FetchFailed, HostPaused, ServiceNotConfigured
from resources.polite_site import SiteResource
from tests.integration.resources.visits import PAGES, PATH, Visits, asked
from tests.integration.stand_ins import StandIn


def test_a_page_is_fetched_after_robots_was_read_once(site: StandIn, visit: Visits) -> None:
    polite = visit(site.url)
    pages = [polite.get(PATH), polite.get(PATH)]
    assert all(page.status == 200 and b"section_latest" in page.body for page in pages)
    assert (pages[0].url, pages[0].leaves_to) == (site.url + PATH, None)
    assert asked(site) == ["/robots.txt", PATH, PATH]


def test_every_request_says_who_asks_and_how_to_reach_them(site: StandIn, visit: Visits) -> None:
    visit(site.url).get(PATH)
    agents = {request["user_agent"] for request in site.get("requests")}
    assert agents == {"GranaryBot/1.0 (crawler@example.example)"}


@pytest.mark.parametrize("status", [404, 410])
def test_a_page_that_is_gone_is_an_answer(site: StandIn, visit: Visits, status: int) -> None:
    site.fault(path=PAGES, status=status, body="없는 기사")
    page = visit(site.url).get(PATH)
    assert (page.status, page.body.decode()) == (status, "없는 기사")


@pytest.mark.parametrize(
    "robots",
    [
        "User-agent: *\nDisallow: /\n",
        "User-agent: *\nAllow: /\n\nUser-agent: GranaryBot\nDisallow: /breakingnews/\n",
        "\ufeffUser-agent: *\nDisallow: /\n",
        "User-agent: *\r\nDisallow: /*?date=\r\n",
    ],
)
def test_a_disallow_is_a_hard_stop_that_names_the_permission(
    site: StandIn, visit: Visits, robots: str
) -> None:
    site.post("robots", text=robots)
    with pytest.raises(CrawlNotAllowed, match=r"disallows /breakingnews/section/101/259.*CRAWL_PERMISSION"):
        visit(site.url).get(PATH)
    assert asked(site) == ["/robots.txt"]


def test_with_a_permission_a_disallow_does_not_count(site: StandIn, visit: Visits) -> None:
    site.post("robots", text="User-agent: *\nDisallow: /\n")
    assert visit(site.url, permission="contract 17; Example Media").get(PATH).status == 200


@pytest.mark.parametrize("robots", ["", "User-agent: *\nAllow: /\n", "User-agent: Another\nDisallow: /\n"])
def test_what_robots_does_not_disallow_may_be_fetched(site: StandIn, visit: Visits, robots: str) -> None:
    site.post("robots", text=robots)
    assert visit(site.url).get(PATH).status == 200


@pytest.mark.parametrize("status", [404, 410])
def test_without_a_robots_file_everything_is_allowed(site: StandIn, visit: Visits, status: int) -> None:
    site.post("robots", text="User-agent: *\nDisallow: /\n", status=status)
    assert visit(site.url).get(PATH).status == 200


@pytest.mark.parametrize("permission", [None, "contract 17; Example Media"])
@pytest.mark.parametrize(
    "fault",
    [
        {"status": 500},
        {"status": 503},
        {"status": 401},
        {"hang": True},
        {"truncate_bytes": 3},
        {"pad_to_bytes": 10_000_000},
        {"redirect": "/robots.txt"},
        {"redirect": "https://another.example/robots.txt"},
    ],
    ids=str,
)
def test_a_robots_file_that_cannot_be_read_means_no_crawl(
    site: StandIn, visit: Visits, fault: dict[str, object], permission: str | None
) -> None:
    site.fault(path="^/robots", **fault)
    with pytest.raises(CrawlNotAllowed, match=r"robots\.txt of .* cannot be read .* no crawl"):
        visit(site.url, permission=permission).get(PATH)
    assert PATH not in asked(site)


def test_a_robots_file_that_moved_within_the_site_is_obeyed(site: StandIn, visit: Visits) -> None:
    site.fault(path="^/robots.txt$", redirect="/rules/robots.txt")
    site.fault(path="^/rules", status=200, body="User-agent: *\nDisallow: /breakingnews\n")
    with pytest.raises(CrawlNotAllowed, match="disallows /breakingnews"):
        visit(site.url).get(PATH)


@pytest.mark.parametrize("status", [403, 429])
def test_a_refusal_pauses_the_host_for_everybody_and_nothing_more_is_asked(
    site: StandIn, visit: Visits, connect: Callable[..., psycopg.Connection], status: int
) -> None:
    site.fault(path=PAGES, status=status, times=1)
    with pytest.raises(HostPaused, match=f"answered {status} and is left alone for 12 hours"):
        visit(site.url).get(PATH)
    so_far = asked(site)
    another_run = Visits(connect())
    for polite in (visit(site.url), another_run(site.url), another_run(site.url, permission="contract 17")):
        with pytest.raises(HostPaused, match=f"left alone until .*: it answered {status}"):
            polite.get(PATH)
    another_run.close()
    assert asked(site) == so_far


def test_a_refused_robots_file_pauses_the_host_too(site: StandIn, visit: Visits) -> None:
    site.post("robots", status=429)
    with pytest.raises(HostPaused, match="12 hours"):
        visit(site.url).get(PATH)
    with pytest.raises(HostPaused, match="left alone until"):
        visit(site.url).get(PATH)
    assert asked(site) == ["/robots.txt"]


def test_when_the_pause_is_over_the_host_is_asked_again(
    site: StandIn, visit: Visits, connection: psycopg.Connection
) -> None:
    site.fault(path=PAGES, status=429, times=1)
    with pytest.raises(HostPaused):
        visit(site.url).get(PATH)
    connection.execute("UPDATE granary.host_pace SET paused_until = clock_timestamp()")
    assert visit(site.url).get(PATH).status == 200


def test_requests_are_the_interval_and_a_random_pause_apart_over_all_runs(
    site: StandIn, visit: Visits, connect: Callable[..., psycopg.Connection]
) -> None:
    # Nobody sleeps here, so all pauses count from about now: each is when its request would be made.
    another_run = Visits(connect())
    another_run.pauses = visit.pauses
    runs = [visit(site.url, interval=10, sleep=(2, 7)), another_run(site.url, interval=10, sleep=(2, 7))]
    for number in range(10):
        runs[number % 2].get(PATH)
    another_run.close()
    gaps = [later - earlier for earlier, later in pairwise(visit.pauses)]
    assert len(gaps) == 11  # ten pages, and robots.txt for each run
    spent = 3.0  # seconds that the test itself may take, by which later pauses are shorter
    assert all(12 - spent < gap < 17.1 for gap in gaps)
    assert 11 * 12 - spent < sum(gaps) < 11 * 17
    assert max(gaps) - min(gaps) > 0.1  # random, not always the same


def test_no_random_pause_brings_two_requests_closer_than_the_interval(site: StandIn, visit: Visits) -> None:
    polite = visit(site.url, interval=100, sleep=(0, 1_000))
    for _ in range(20):
        polite.get(PATH)
    assert all(later - earlier > 95 for earlier, later in pairwise(visit.pauses))


def test_redirects_and_failures_keep_the_pace_too(site: StandIn, visit: Visits) -> None:
    site.fault(path="^/old", redirect=PATH)
    site.fault(path=PAGES, status=500)
    with pytest.raises(FetchFailed):
        visit(site.url, interval=100).get("/old")
    assert len(asked(site)) == 3
    assert all(later - earlier > 95 for earlier, later in pairwise(visit.pauses))


def test_without_an_address_nothing_is_crawled_and_the_message_says_what_to_do(
    connection: psycopg.Connection,
) -> None:
    with (
        pytest.raises(
            ServiceNotConfigured, match=r"NAVER_BASE_URL is not set: `make up` .* CRAWL_PERMISSION"
        ),
        SiteResource(contact="crawler@example.example").open(connection, None),
    ):
        pytest.fail("it opened")


def test_the_resource_hands_on_what_the_operator_set(site: StandIn, connection: psycopg.Connection) -> None:
    site.post("robots", text="User-agent: *\nDisallow: /\n")
    resource = SiteResource(
        base_url=site.url,
        contact="other@example.example",
        timeout_ms=300,
        min_interval_ms=0,
        sleep_min_ms=0,
        sleep_max_ms=0,
    )
    with resource.open(connection, "contract 17; Example Media") as polite:
        assert polite.get(PATH).status == 200
        site.fault(path=PAGES, hang=True)
        with pytest.raises(FetchFailed, match=r"within 0\.3 s"):
            polite.get(PATH)
    with pytest.raises(RuntimeError, match="closed"):
        polite.get(PATH)
    assert site.get("requests")[0]["user_agent"] == "GranaryBot/1.0 (other@example.example)"
    with resource.open(connection, None) as polite, pytest.raises(CrawlNotAllowed):
        polite.get(PATH)
