"""Where a connection for an address that came from data may go: a public address, checked once resolved.

The rule is that of the promises: `is_global`, and not multicast, NAT64, 100.64.0.0/10 or any form that
carries an IPv4 address inside IPv6. For IPv6 only what has been handed out (2000::/3) can pass, so that
a range that `ipaddress` does not know yet (it learnt several between 3.11 and 3.13) is refused.
"""

import ipaddress
import queue
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from resources.errors import FetchFailed
from resources.fetch_errors import FetchRefused

Lookup = Callable[[str, int], Sequence[str]]
"""Host and port → IP addresses as text. Raises OSError where the name does not resolve."""

_TEST_NAMES = ".test"

_REFUSED = tuple(
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8",
        "100.64.0.0/10",  # shared by the customers of a provider
        "192.0.0.0/24",  # protocol assignments
        "192.88.99.0/24",  # relays of 6to4
        "224.0.0.0/4",  # multicast, which is_global lets pass
        "240.0.0.0/4",
        "2001::/23",  # Teredo and other protocol assignments
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
)
_HANDED_OUT = ipaddress.ip_network("2000::/3")


def public_form(address: str) -> str | None:
    """The address to connect to, IPv4 unwrapped from IPv4-mapped IPv6; None if it is not public."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped:
        parsed = parsed.ipv4_mapped
    if isinstance(parsed, ipaddress.IPv6Address) and (parsed.scope_id or parsed not in _HANDED_OUT):
        return None
    if not parsed.is_global or any(parsed in network for network in _REFUSED):
        return None
    return str(parsed)


def public_addresses(host: str, port: int, seconds: float, lookup: Lookup) -> list[str]:
    """The addresses of a host, all of them public, none twice; of an IP address itself.

    Raises FetchRefused if one of them is not public: a host that names a public and a private address is
    not worth a connection. Raises FetchFailed if it does not resolve within `seconds`.
    """
    found = [host] if _is_ip_address(host) else _looked_up(host, port, seconds, lookup)
    if not found:
        raise FetchFailed("the name does not resolve")
    checked = {address: public_form(address) for address in found}
    for address, public in checked.items():
        if public is None:
            raise FetchRefused(f"{address[:60]} is not a public address")
    return list(dict.fromkeys(public for public in checked.values() if public is not None))


def system_lookup(host: str, port: int) -> Sequence[str]:
    """What the system's resolver says, which also reads 127.0.0.1 out of `0x7f.1` and `2130706433`."""
    return [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def _is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _looked_up(host: str, port: int, seconds: float, lookup: Lookup) -> Sequence[str]:
    """In a thread of its own: a resolver takes no time-out, and its own can be half a minute."""
    answers: queue.SimpleQueue[Sequence[str] | Exception] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            answers.put(lookup(host, port))
        except Exception as error:
            answers.put(error)

    threading.Thread(target=look_up, daemon=True, name="name lookup").start()
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise FetchFailed("the name was not resolved in time") from None
    if isinstance(answer, (OSError, UnicodeError)):
        raise FetchFailed("the name does not resolve") from answer
    if isinstance(answer, Exception):
        raise answer
    return answer


@dataclass(frozen=True)
class LocalTestSites:
    """A loopback address that stands in for every name that ends in `.test` (RFC 6761: never a real one)."""

    address: str
    """`127.0.0.1:8123`; empty: there are none, and a `.test` name is a name like others."""

    def __post_init__(self) -> None:
        if self.address:
            self._host_and_port()

    def covers(self, host: str) -> bool:
        return bool(self.address) and host.endswith(_TEST_NAMES)

    def connect_to(self) -> tuple[str, int]:
        """IP address and port."""
        return self._host_and_port()

    def _host_and_port(self) -> tuple[str, int]:
        host, _, port = self.address.rpartition(":")
        try:
            is_loopback = ipaddress.ip_address(host.strip("[]")).is_loopback
        except ValueError:
            is_loopback = False
        if not is_loopback or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise ValueError(f"local test sites are on loopback, like 127.0.0.1:8123; not {self.address!r}")
        return host.strip("[]"), int(port)
