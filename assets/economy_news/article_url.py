"""Which addresses are articles of the news site, and which belong to its sports and entertainment pages.

The rules are those of "List pages" in the pipeline's contract. An address is data from outside: what is
not plainly an article is none.
"""

import re
from collections.abc import Set
from urllib.parse import SplitResult, parse_qs, urlsplit

ArticleIds = tuple[str, str]

_NEWS_HOSTS = frozenset({"news.naver.com", "n.news.naver.com", "m.news.naver.com"})
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_OTHER_SERVICES = frozenset({"sports", "entertain"})

_ARTICLE_PATH = re.compile(r"/(?:mnews/)?article/([0-9]{3})/([0-9]{10})/*")
_READ_PATH = re.compile(r"(?:/\w+)*/read\.(?:naver|nhn)/*", re.ASCII)
_NEWS_READ_PATH = re.compile(r"(?:/\w+)*/news_read\.(?:naver|nhn)/*", re.ASCII)
_OID = re.compile(r"[0-9]{3}")
_AID = re.compile(r"[0-9]{10}")


def article_ids(url: str, extra_hosts: Set[str] = frozenset()) -> ArticleIds | None:
    """`(oid, aid)` of an article's address, absolute or relative to the site; None for any other address.

    `extra_hosts` are accepted beside Naver's news hosts, compared as `host[:port]` in lower case: the
    local stand-in and mirrors.
    """
    parts = _split(url)
    if parts is None or not (_is_relative(parts) or _is_news_host(parts, extra_hosts)):
        return None
    return _ids(parts)


def article_ids_on_any_host(url: str) -> ArticleIds | None:
    """`(oid, aid)` by path and query alone, for an address that we chose and fetched ourselves."""
    parts = _split(url)
    return None if parts is None else _ids(parts)


def canonical_url(oid: str, aid: str) -> str:
    """The one address of an article that is stored and shown."""
    return f"https://n.news.naver.com/mnews/article/{oid}/{aid}"


def is_other_service_host(host: str) -> bool:
    """Whether a host is one of Naver's sports or entertainment hosts, whose articles are not read."""
    labels = host.lower().split(".")
    return labels[-2:] == ["naver", "com"] and not _OTHER_SERVICES.isdisjoint(labels)


def is_on_other_service(url: str) -> bool:
    """Whether an absolute address lies on such a host."""
    parts = _split(url)
    return parts is not None and is_other_service_host(parts.hostname or "")


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url.strip(" \t\r\n\f"))
    except ValueError:
        return None
    return parts if parts.scheme in ("", "http", "https") else None


def _is_relative(parts: SplitResult) -> bool:
    return not parts.scheme and not parts.netloc


def _is_news_host(parts: SplitResult, extra_hosts: Set[str]) -> bool:
    # The whole authority is compared: a user name, another port or a backslash makes it another one.
    host = parts.netloc.lower()
    return host in extra_hosts or host.removesuffix(_DEFAULT_PORTS.get(parts.scheme, ":443")) in _NEWS_HOSTS


def _ids(parts: SplitResult) -> ArticleIds | None:
    if match := _ARTICLE_PATH.fullmatch(parts.path):
        return match[1], match[2]
    if _READ_PATH.fullmatch(parts.path):
        return _ids_of_query(parts.query, "oid", "aid")
    if _NEWS_READ_PATH.fullmatch(parts.path):
        return _ids_of_query(parts.query, "office_id", "article_id")
    return None


def _ids_of_query(query: str, oid_name: str, aid_name: str) -> ArticleIds | None:
    try:
        values = parse_qs(query, max_num_fields=100)
    except ValueError:
        return None
    oids, aids = set(values.get(oid_name, [])), set(values.get(aid_name, []))
    if len(oids) != 1 or len(aids) != 1:
        return None
    oid, aid = oids.pop(), aids.pop()
    return (oid, aid) if _OID.fullmatch(oid) and _AID.fullmatch(aid) else None
