"""Where a fetch for an address from data connects to: to checked addresses, and nowhere else."""

import socket
from collections.abc import Callable, Iterator, Sequence

import pytest

from resources.guarded_fetch import FetchRefused, GuardedFetcher
from tests.integration.resources.scripted_server import always, answer, scripted
from tests.integration.resources.served_front_pages import (
    USER_AGENT,
    NotingNetwork,
    ServedSites,
    served_front_pages,
)

PAGE = answer(200, b"<title>x</title>", content_type="text/html")
PUBLIC = "8.8.8.8"


@pytest.fixture(scope="module")
def sites() -> Iterator[ServedSites]:
    with served_front_pages() as served:
        yield served


@pytest.fixture
def fetcher(sites: ServedSites) -> GuardedFetcher:
    return GuardedFetcher(USER_AGENT, local_test_sites=sites.address)


def resolver(*answers: Sequence[str]) -> Callable[[str, int], Sequence[str]]:
    """Gives one answer after the other, and fails the test when there is none left."""
    left = list(answers)
    return lambda host, port: left.pop(0)


@pytest.mark.parametrize(
    "host",
    ["loopback", "localhost", "metadata", "loopback6", "mapped", "zero", "decimal", "octal"],
)
def test_a_redirect_to_a_private_address_is_refused_and_not_connected_to(
    sites: ServedSites, host: str
) -> None:
    network = NotingNetwork(sites.address)
    fetcher = GuardedFetcher(USER_AGENT, local_test_sites=sites.address, network=network)
    with pytest.raises(FetchRefused, match="not a public address"):
        fetcher.get(f"http://redirect-{host}.test/")
    assert network.asked == [("127.0.0.1", int(sites.address.rpartition(":")[2]))]


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.example/",
        "http://user@a.example/",
        "http://a.example:8080/",
        "https://a.example:22/",
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://169.254.169.254/",
    ],
)
def test_a_refused_address_is_never_connected_to(url: str) -> None:
    network = NotingNetwork("127.0.0.1:1")
    fetcher = GuardedFetcher(USER_AGENT, resolve=lambda host, port: [PUBLIC], network=network)
    with pytest.raises(FetchRefused):
        fetcher.get(url)
    assert network.asked == []


def test_the_local_test_sites_open_no_other_loopback_address(
    sites: ServedSites, fetcher: GuardedFetcher
) -> None:
    begun = len(sites.seen.requests)
    for url in (
        f"http://{sites.address}/",
        "http://127.0.0.1/",
        "http://localhost/",
        "http://hanbit.test@127.0.0.1/",
    ):
        with pytest.raises(FetchRefused):
            fetcher.get(url)
    assert len(sites.seen.requests) == begun
    unaware = GuardedFetcher(USER_AGENT, resolve=resolver(["127.0.0.1"]))
    with pytest.raises(FetchRefused, match="not a public address"):
        unaware.get("http://hanbit-news.test/")
    with pytest.raises(ValueError, match="loopback"):
        GuardedFetcher(USER_AGENT, local_test_sites="10.0.0.1:80")


def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    """A name that is public when it is checked and private when it is asked again: it is not asked again."""
    with scripted(always(PAGE)) as server:
        network = NotingNetwork(server.url)
        fetcher = GuardedFetcher(USER_AGENT, resolve=resolver([PUBLIC], ["127.0.0.1"]), network=network)
        assert fetcher.get("http://rebinding.example/").body == b"<title>x</title>"
        assert network.asked == [(PUBLIC, 80)]
        with pytest.raises(FetchRefused, match=r"127\.0\.0\.1 is not a public address"):
            fetcher.get("http://rebinding.example/")
        assert network.asked == [(PUBLIC, 80)]
        assert "Host: rebinding.example\r\n" in server.requests[0]


def test_each_hop_is_checked_anew_though_its_host_was_public_before() -> None:
    with scripted(always(answer(302, location="/next"))) as server:
        network = NotingNetwork(server.url)
        fetcher = GuardedFetcher(USER_AGENT, resolve=resolver([PUBLIC], ["10.0.0.1"]), network=network)
        with pytest.raises(FetchRefused, match=r"10\.0\.0\.1 is not a public address"):
            fetcher.get("http://rebinding.example/")
        assert network.asked == [(PUBLIC, 80)]
        assert len(server.requests) == 1


def test_a_dead_address_of_a_host_leaves_the_next_its_turn() -> None:
    with scripted(always(PAGE)) as server:
        network = NotingNetwork(server.url, dead=["2606:4700::1111"])
        found = ["2606:4700::1111", "1.1.1.1", PUBLIC]
        fetcher = GuardedFetcher(USER_AGENT, resolve=resolver(found), network=network)
        assert fetcher.get("http://a.example/").status == 200
        assert network.asked == [("2606:4700::1111", 80), ("1.1.1.1", 80)]


def test_nothing_but_the_given_resolver_resolves_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved: list[object] = []
    real = socket.getaddrinfo

    def noting(host: object, *rest: object, **more: object) -> object:
        resolved.append(host)
        return real(host, *rest, **more)  # type: ignore[arg-type]

    with scripted(always(PAGE)) as server:
        fetcher = GuardedFetcher(USER_AGENT, resolve=resolver([PUBLIC]), network=NotingNetwork(server.url))
        monkeypatch.setattr(socket, "getaddrinfo", noting)
        fetcher.get("http://a.example/")
    assert set(resolved) <= {"127.0.0.1"}
