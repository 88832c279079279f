"""Which addresses a connection may go to, and what a host must resolve to."""

import ipaddress
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.errors import FetchFailed
from resources.fetch_errors import FetchRefused
from resources.public_addresses import LocalTestSites, public_addresses, public_form, system_lookup
from tests.bad_inputs import bad_inputs

PRIVATE = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.9",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::808:808",
    "64:ff9b:1::808:808",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:808:808::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fe80::1%eth0",
    "2606:4700::1%eth0",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "",
    "localhost",
    "1.2.3",
    "0x7f000001",
    "2130706433",
    "0177.0.0.1",
    "127.0.0.1\n",
    "8.8.8.8/32",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "100.63.255.255",
    "100.128.0.1",
    "172.32.0.1",
    "223.255.255.255",
    "2606:4700::1111",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_public_has_no_public_form(address: str) -> None:
    assert public_form(address) is None


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_connected_to_as_it_is(address: str) -> None:
    assert public_form(address) == address


def test_ipv4_inside_ipv6_is_unwrapped_before_it_is_judged() -> None:
    assert public_form("::ffff:8.8.8.8") == "8.8.8.8"
    assert public_form("::ffff:808:808") == "8.8.8.8"


@bad_inputs
@given(st.ip_addresses() | st.ip_addresses(network="2000::/3") | st.ip_addresses(network="::ffff:0:0/96"))
def test_what_passes_is_global_unicast(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    public = public_form(str(address))
    if public is not None:
        parsed = ipaddress.ip_address(public)
        assert parsed.is_global and not parsed.is_multicast and not parsed.is_reserved
        assert not parsed.is_private and not parsed.is_loopback and not parsed.is_link_local


def found(*addresses: str, host: str = "a.example") -> list[str]:
    return public_addresses(host, 80, 5, lambda host, port: addresses)


def test_a_host_has_each_of_its_addresses_once_in_the_resolvers_order() -> None:
    assert found("8.8.4.4", "::ffff:8.8.4.4", "2606:4700::1111", "8.8.4.4") == ["8.8.4.4", "2606:4700::1111"]


@pytest.mark.parametrize("private", ["127.0.0.1", "fe80::1%2", "64:ff9b::7f00:1"])
def test_one_address_that_is_not_public_refuses_the_host(private: str) -> None:
    with pytest.raises(FetchRefused, match="not a public address"):
        found("8.8.8.8", private)


@pytest.mark.parametrize("host", ["0x7f.1", "2130706433", "0177.0.0.1", "127.1", "0x7f000001", "localhost"])
def test_whatever_the_system_reads_as_loopback_is_refused(host: str) -> None:
    with pytest.raises(FetchRefused, match=r"127\.0\.0\.1|::1"):
        public_addresses(host, 80, 5, system_lookup)


def test_an_ip_address_is_checked_without_asking_anybody() -> None:
    def never(host: str, port: int) -> list[str]:
        raise AssertionError("asked")

    assert public_addresses("8.8.8.8", 80, 5, never) == ["8.8.8.8"]
    with pytest.raises(FetchRefused):
        public_addresses("::1", 80, 5, never)


@pytest.mark.parametrize("error", [OSError("no such host"), UnicodeError("label too long")])
def test_a_name_that_does_not_resolve_is_a_failed_fetch(error: Exception) -> None:
    def fails(host: str, port: int) -> list[str]:
        raise error

    with pytest.raises(FetchFailed, match="does not resolve"):
        public_addresses("a.example", 80, 5, fails)
    with pytest.raises(FetchFailed, match="does not resolve"):
        found()


def test_a_resolver_that_hangs_is_waited_for_no_longer_than_said() -> None:
    over = threading.Event()

    def hangs(host: str, port: int) -> list[str]:
        over.wait(30)
        return ["8.8.8.8"]

    try:
        with pytest.raises(FetchFailed, match="in time"):
            public_addresses("a.example", 80, 0.05, hangs)
    finally:
        over.set()


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8:80",
        "10.0.0.1:80",
        "0.0.0.0:80",
        "localhost:80",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:0",
        ":80",
        "127.0.0.1:65536",
        "http://127.0.0.1:80",
        "127.0.0.1:8e1",
    ],
)
def test_local_test_sites_are_on_loopback(address: str) -> None:
    with pytest.raises(ValueError, match="loopback"):
        LocalTestSites(address)


def test_local_test_sites_cover_reserved_names_only() -> None:
    sites = LocalTestSites("127.0.0.1:8123")
    assert sites.connect_to() == ("127.0.0.1", 8123)
    assert sites.covers("hanbit-news.test") and sites.covers("www.hanbit-news.test")
    assert not any(map(sites.covers, ("test", "atest", "hanbit.test.example", "localhost", "127.0.0.1")))
    assert not LocalTestSites("").covers("hanbit-news.test")
