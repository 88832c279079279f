"""Which modules can reach the network, and where each goes (promises, "Security").

An address that came from data has one way out, the guarded fetch; every other module here asks a service that
a setting names. Whoever adds another way fails here, and `raw_files/test_no_other_way_out.py` holds the
pipeline with such addresses to more.
"""

import ast

import pytest

from tests.unit.project_modules import PRODUCTION, ROOT, modules, relative
from tests.unit.raw_files.test_no_other_way_out import HARMLESS, WAYS_OUT, imported, is_within

# Open no connection by themselves here, or only to MONGODB_URI (see `test_import_rules.py`).
NOT_HERE = {"asyncio", "os", "pymongo", "uvicorn"}
REACHING = (WAYS_OUT - NOT_HERE) | {
    "httpx2",
    "imaplib",
    "poplib",
    "prometheus_client.exposition",
    "prometheus_client.push_to_gateway",
    "prometheus_client.pushadd_to_gateway",
    "prometheus_client.start_http_server",
}
GOES_TO: dict[str, tuple[str, set[str]]] = {
    "resources/guarded_connection.py": ("the checked address alone", {"httpcore", "ssl"}),
    "resources/guarded_fetch.py": ("through guarded_connection.py", {"httpcore", "ssl"}),
    "resources/public_addresses.py": ("the resolver, whose answers it checks", {"socket"}),
    "resources/polite_site.py": ("the host of NAVER_BASE_URL", {"httpx"}),
    "resources/recipe_api.py": ("RECIPE_API_BASE_URL", {"httpx"}),
    "resources/openai_api.py": ("OPENAI_BASE_URL", {"httpx2", "openai"}),
    "resources/batches.py": ("names a type", {"openai"}),
    "resources/chat.py": ("names errors", {"httpx2"}),
    "resources/bucket.py": ("S3_ENDPOINT_URL", {"boto3", "botocore", "urllib3"}),
    "resources/bucket_failure.py": ("names errors", {"botocore", "urllib3"}),
    "resources/alert_delivery.py": ("ALERT_URLS", {"apprise"}),
    "resources/pushgateway.py": ("PUSHGATEWAY_URL", {"prometheus_client.exposition"}),
    "resources/exposition.py": ("nowhere: writes text", {"prometheus_client.exposition"}),
    "api/metrics.py": ("nowhere: names the text's type", {"prometheus_client.exposition"}),
    "api/__main__.py": ("nowhere: is imported ahead of the first search", {"openai"}),
}
LOADERS = {"__import__", "eval", "exec"}
# Which pipeline asks the web, and through what: no other may hand it an address.
ASKS_THE_WEB = {
    "economy_news": {"polite_site"},
    "raw_files": {"guarded_fetch"},
    "recipes": {"recipe_api"},
    "context_tags": set[str](),
    "recommendations": set[str](),
}
OF_THE_WEB = {"guarded_connection", "guarded_fetch", "polite_site", "recipe_api", "public_addresses"}


def ways_out(source: str) -> set[str]:
    """The ways to the network that a module names, and what could load one by its name."""
    tree = ast.parse(source)
    names = {name for name in imported(tree) if not any(is_within(name, one) for one in HARMLESS)}
    found = {way for way in REACHING if any(is_within(name, way) for name in names)}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return found | (used & LOADERS)


@pytest.mark.parametrize("folder", PRODUCTION)
def test_only_the_modules_named_here_reach_the_network(folder: str) -> None:
    found = {relative(path): ways_out(path.read_text("utf-8")) for path in modules(folder)}
    allowed = {name: ways for name, (_, ways) in GOES_TO.items() if name.startswith(f"{folder}/")}
    assert {name: ways for name, ways in found.items() if ways} == allowed


@pytest.mark.parametrize("pipeline", ASKS_THE_WEB)
def test_a_pipeline_asks_the_web_by_its_one_resource(pipeline: str) -> None:
    found = {
        name.split(".")[1]
        for path in modules(f"assets/{pipeline}")
        for name in imported(ast.parse(path.read_text("utf-8")))
        if name.startswith("resources.")
    }
    assert found & OF_THE_WEB == ASKS_THE_WEB[pipeline]


def test_every_pipeline_is_looked_at() -> None:
    assert set(ASKS_THE_WEB) == {path.parent.name for path in ROOT.glob("assets/*/assets.py")}


@pytest.mark.parametrize(
    "source",
    [
        "import urllib.request",
        "from urllib import request",
        "import httpx2 as x",
        "def f():\n    from http.client import HTTPConnection",
        "from prometheus_client.exposition import push_to_gateway",
        "__import__('socket')",
    ],
)
def test_a_way_out_is_found(source: str) -> None:
    assert ways_out(source)
