"""The registrable domain of an address: what a site's owner registered, `news.co.kr` of `www.news.co.kr`.

Registrable is decided by the public suffix list as it comes with its package (a snapshot; nothing is
downloaded), with its private section: `someone.github.io` is a domain of its own, since another owner
answers at the next one. A top-level domain that the list does not know is a suffix by the list's own
default rule, so invented names like `hanbit-news.test` have a domain.
"""

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

# The host stands before a port, a path, a query, a fragment or the end. A user name, a backslash, a second
# colon or any other scheme leaves something over, and then it is no address. 254: a host and its final dot.
_ADDRESS = re.compile(
    r"(?:(?:[hH][tT][tT][pP][sS]?:)?//)?"
    r"([^\x00-\x20\x7f/?#@:\\%\[\]]{1,254})"
    r"(?::[0-9]{0,5})?"
    r"(?:[/?#][^\x00-\x1f\x7f]*)?"
)
# A host of ASCII labels. Underscores are in no registered name, but in names below one.
_PLAIN_HOST = re.compile(
    r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
)
# What WHATWG's URL standard reads as an IPv4 address: 1.2.3.4, 127.1, 2130706433, 0x7f.1.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")

_LONGEST_HOST = 253


def registrable_domain(value: str) -> str | None:
    """The registrable domain of a URL (http, https or without scheme) or of a domain, as ASCII in lower case.

    None where there is none: IP addresses in any notation, localhost and other single labels, public
    suffixes themselves, addresses with a user name or with spaces or control characters outside their path,
    other schemes, and what IDNA (UTS #46) or DNS does not take as a name. Nothing is trimmed.
    """
    match = _ADDRESS.fullmatch(value)
    return None if match is None else _domain_of_host(match[1])


# A file names few hosts many times. A full cache of long names takes about 10 MB.
@lru_cache(maxsize=16_384)
def _domain_of_host(host: str) -> str | None:
    name = _ascii_name(host)
    if name is None or len(name) > _LONGEST_HOST or not _PLAIN_HOST.fullmatch(name):
        return None
    last = name.rpartition(".")[2]
    if last == "localhost" or _NUMBER.fullmatch(last) or not any(map(str.isalpha, last)):
        return None
    domain = _suffixes().privatesuffix(name)
    return None if domain is None or "_" in domain else domain


def _ascii_name(host: str) -> str | None:
    """The host in lower case and without its final dot; other scripts as `xn--`. Not yet checked if plain."""
    lower = host.lower() if host.isascii() else host
    if not host.isascii() or "xn--" in lower:
        import idna

        try:
            lower = idna.encode(host, uts46=True, std3_rules=True).decode("ascii")
        except ValueError:  # IDNAError is one, and so is what a character unknown to Python's tables raises
            return None
    return lower.removesuffix(".")


@cache
def _suffixes() -> "PublicSuffixList":
    # Imported and read here: 50 ms that a process without raw files does not pay.
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()
