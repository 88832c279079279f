"""Addresses that came from data are asked through the guarded fetch alone (promises, "Security").

Whoever adds another way to reach the network to this pipeline fails here.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PIPELINE = Path(__file__).resolve().parents[3] / "assets" / "raw_files"

# What opens connections, or runs or loads what may. urllib.parse takes addresses apart and opens none.
WAYS_OUT = {
    "aiohttp",
    "apprise",
    "asyncio",
    "boto3",
    "botocore",
    "ctypes",
    "dns",
    "ftplib",
    "http",
    "httpcore",
    "httpx",
    "importlib",
    "multiprocessing",
    "openai",
    "os",
    "pymongo",
    "requests",
    "runpy",
    "smtplib",
    "socket",
    "socketserver",
    "ssl",
    "subprocess",
    "telnetlib",
    "urllib",
    "urllib3",
    "uvicorn",
    "webbrowser",
    "websockets",
    "xmlrpc",
}
HARMLESS = {"urllib.parse"}
# Of ours: the guarded fetch and what asks through it, what goes where a setting says, what asks nobody.
RESOURCES = {
    "alerts",
    "bucket",
    "counters",
    "errors",
    "guarded_fetch",
    "item_history",
    "named_sql",
    "postgres",
    "robots",
}
# lxml opens what it is given a name of; ours parse what they hold. The rest runs or loads code.
CALLS = {"parse", "iterparse", "urlopen", "urlretrieve", "getaddrinfo", "create_connection"}
NAMES = {"__import__", "eval", "exec", "compile", "open"}
FETCHES = {"GuardedFetcher", "GuardedFetchResource"}


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_within(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")


def other_ways_out(source: str) -> list[str]:
    """What in a module could reach the network past the guarded fetch."""
    tree = ast.parse(source)
    found = []
    for name in imported(tree):
        root, *rest = name.split(".")
        if root == "resources":
            allowed = bool(rest) and rest[0] in RESOURCES
        else:
            allowed = root not in WAYS_OUT or any(is_within(name, module) for module in HARMLESS)
        if not allowed:
            found.append(name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS:
            found.append(node.func.attr)
        elif isinstance(node, ast.Name) and node.id in NAMES:
            found.append(node.id)
    return found


MODULES = sorted(PIPELINE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module_has_no_other_way_out(path: Path) -> None:
    assert other_ways_out(path.read_text(encoding="utf-8")) == []


def test_the_guarded_fetch_is_used_by_the_front_pages_alone() -> None:
    users = {
        path.name
        for path in MODULES
        if any(
            name.split(".")[-1] in FETCHES for name in imported(ast.parse(path.read_text(encoding="utf-8")))
        )
    }
    assert users == {"assets.py", "front_page_fetching.py"}


@pytest.mark.parametrize(
    "source",
    [
        "import socket",
        "import httpx as h",
        "from urllib import request",
        "import urllib.request",
        "from urllib.request import urlopen",
        "def f():\n    from requests import get",
        "import http.client",
        "from resources.polite_site import SiteResource",
        "from resources.guarded_connection import answer_from",
        "from resources import polite_site",
        "import resources.polite_site",
        "__import__('socket')",
        "from importlib import import_module",
        "from os import system",
        "etree.parse('http://hanbit-news.test/')",
        "open('/dev/tcp/x')",
    ],
)
def test_another_way_out_is_found(source: str) -> None:
    assert other_ways_out(source)


@pytest.mark.parametrize(
    "source",
    [
        "from urllib.parse import urljoin",
        "import urllib.parse",
        "from resources.guarded_fetch import GuardedFetcher",
        "from resources import bucket",
        "etree.fromstring(page)",
    ],
)
def test_what_opens_no_connection_is_let_pass(source: str) -> None:
    assert not other_ways_out(source)
