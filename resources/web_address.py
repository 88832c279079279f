"""What an address that came from data must look like before anybody is asked about it.

Belongs here: the form of a URL. Not here: what its host resolves to (`public_addresses.py`).
"""

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import quote, urljoin, urlsplit

from resources.fetch_errors import FetchRefused

MAX_LENGTH = 2_048
DEFAULT_PORTS = {"http": 80, "https": 443}

_UNWRITABLE = re.compile(r"[\x00-\x1f\x7f]")
_HOST_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
# What RFC 3986 lets stand in a path or query; "%" too, since what is escaped already stays as it is.
_KEPT = "%/:@!$&'()*+,;=~-._"


@dataclass(frozen=True)
class WebAddress:
    """An http or https address. The host is lower-case ASCII, or an IPv6 address without brackets."""

    scheme: str
    host: str
    port: int
    target: str
    """Path and query, escaped."""

    @property
    def authority(self) -> str:
        """What a Host header holds: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        return self.origin + self.target

    def joined(self, location: str) -> "WebAddress":
        """The address of a Location header seen from here. Raises FetchRefused as `parse` does."""
        try:
            return parse(urljoin(self.url, location.strip()))
        except ValueError:
            raise FetchRefused("it redirects to what is no address") from None


def parse(url: str) -> WebAddress:
    """The address in its one form: names in IDNA, the default port filled in, no fragment.

    Raises FetchRefused for anything but http and https, user info, and what is no address.
    """
    if len(url) > MAX_LENGTH or _UNWRITABLE.search(url):
        raise FetchRefused("the address is too long or holds control characters")
    try:
        parts = urlsplit(url)
        port = parts.port
        target = quote(parts.path or "/", safe=_KEPT)
        if parts.query:
            target += "?" + quote(parts.query, safe=_KEPT + "?")
    except ValueError:  # brackets that do not match, a port of letters, lone surrogates
        raise FetchRefused("it is no address") from None
    if parts.scheme not in DEFAULT_PORTS:
        raise FetchRefused("only http and https are fetched")
    if "@" in parts.netloc:
        raise FetchRefused("the address holds user info")
    if port is None:
        port = DEFAULT_PORTS[parts.scheme]
    return WebAddress(parts.scheme, _host(parts.hostname or "", "[" in parts.netloc), port, target)


def _host(name: str, in_brackets: bool) -> str:
    if in_brackets:
        try:
            address = ipaddress.IPv6Address(name)
        except ValueError:
            raise FetchRefused("the host is no address") from None
        if address.scope_id:
            raise FetchRefused("the host is an address of one network only")
        return str(address)
    if not name.isascii():
        import idna

        try:
            name = idna.encode(name, uts46=True).decode("ascii")
        except UnicodeError:
            raise FetchRefused("the host is no name") from None
    name = name.removesuffix(".")
    if not _HOST_NAME.fullmatch(name):
        raise FetchRefused("the host is no name")
    return name
