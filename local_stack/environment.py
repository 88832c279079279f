"""The environment a running stack gives to other programs, and which services the caller brings along.

A service is external when one of its variables is set by somebody else than us. A shell that has
sourced `.local/env` has all of them set by us: two more variables tell, one naming the stack, one
with a digest of each value, so that also a value from before a change of ports is known as ours.
"""

import hashlib
import os
import shlex
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from local_stack import bucket, mongo_server, postgres
from local_stack.postgres_account import installed_binaries
from local_stack.state import Secrets

# All that there are; not read from orchestration, whose import is Dagster's.
PIPELINES = ("economy_news", "raw_files", "recipes", "context_tags", "recommendations")

MARK = "GRANARY_LOCAL_STACK"
DIGESTS = "GRANARY_LOCAL_STACK_DIGESTS"

# Set by somebody else, one of these means: use that service and start none.
TRIGGERS: Mapping[str, tuple[str, ...]] = {
    "postgres": ("DATABASE_URL",),
    "mongo_server": ("MONGODB_URI",),
    "bucket": ("S3_ENDPOINT_URL",),
    "openai_stand_in": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "naver_site": ("NAVER_BASE_URL",),
    "front_pages": ("LOCAL_TEST_SITES",),
    "recipe_api": ("RECIPE_API_BASE_URL",),
}

# A value that the caller has chosen for these stays.
_CALLERS_CHOICE = {
    "GRANARY_PIPELINES",
    "API_TOKEN",
    "ADMIN_TOKEN",
    "CONTEXT_HMAC_KEY",
    "DAGSTER_PG_URL",
    "CRAWL_MIN_INTERVAL_MS",
    "CRAWL_SLEEP_MIN_MS",
    "CRAWL_SLEEP_MAX_MS",
}


def external_services(environ: Mapping[str, str], own: Mapping[str, str], root: Path) -> dict[str, str]:
    """The services the caller brings, each with the variable that says so. `own` are our current values."""
    found = {}
    for service, names in TRIGGERS.items():
        for name in names:
            if environ.get(name) and not is_ours(name, environ, own, root):
                found[service] = name
                break
    return found


def is_ours(name: str, environ: Mapping[str, str], own: Mapping[str, str], root: Path) -> bool:
    """Whether the variable's value is one that this stack gave out, now or earlier."""
    value = environ.get(name)
    if value is None:
        return False
    given = environ.get(DIGESTS, "").split(":") if environ.get(MARK) == str(root) else []
    return value == own.get(name) or _digest(name, value) in given


def _digest(name: str, value: str) -> str:
    return hashlib.sha256(f"{name}={value}".encode()).hexdigest()[:12]


def postgres_variables(server: postgres.EmbeddedPostgres) -> dict[str, str]:
    dsn = server.dsn(postgres.DATABASE)
    return {"DATABASE_URL": dsn, "DAGSTER_PG_URL": dagster_url(dsn)}


def bucket_variables(server: bucket.Bucket) -> dict[str, str]:
    return {
        "S3_ENDPOINT_URL": server.address,
        "S3_BUCKET": bucket.BUCKET,
        "AWS_ACCESS_KEY_ID": server.access_key_id,
        "AWS_SECRET_ACCESS_KEY": server.secret_access_key,
        "AWS_DEFAULT_REGION": bucket.REGION,
    }


def mongo_variables(server: mongo_server.MongoServer) -> dict[str, str]:
    return {"MONGODB_URI": server.address}


def openai_variables(url: str, api_key: str) -> dict[str, str]:
    return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": api_key}


def naver_variables(url: str) -> dict[str, str]:
    """The stand-in needs no politeness; with another site these stay at the project's defaults."""
    return {
        "NAVER_BASE_URL": url,
        "CRAWL_MIN_INTERVAL_MS": "0",
        "CRAWL_SLEEP_MIN_MS": "0",
        "CRAWL_SLEEP_MAX_MS": "0",
    }


def front_pages_variables(url: str) -> dict[str, str]:
    return {"LOCAL_TEST_SITES": url.removeprefix("http://")}


def recipe_api_variables(url: str) -> dict[str, str]:
    return {"RECIPE_API_BASE_URL": url, "RECIPE_API_KEY": "granary-demo"}


def general_variables(root: Path, secrets: Secrets) -> dict[str, str]:
    return {
        "API_TOKEN": secrets.api_token,
        "ADMIN_TOKEN": secrets.admin_token,
        "CONTEXT_HMAC_KEY": secrets.context_hmac_key,
        "DAGSTER_HOME": str(root.parent),
        "DAGSTER_FILES": str(root / "dagster"),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "GRANARY_PIPELINES": ",".join(PIPELINES),
    }


def dagster_url(database_url: str) -> str:
    """Dagster's own database on the same server, in the form SQLAlchemy reads."""
    parts = urlsplit(database_url)
    return urlunsplit(parts._replace(scheme="postgresql+psycopg2", path=f"/{postgres.DAGSTER_DATABASE}"))


def marked(variables: Mapping[str, str], root: Path) -> dict[str, str]:
    """The variables with the two that make them known as ours later."""
    digests = ":".join(_digest(name, value) for name, value in variables.items())
    return {**variables, MARK: str(root), DIGESTS: digests}


def merged(base: Mapping[str, str], variables: Mapping[str, str], root: Path) -> dict[str, str]:
    """A whole environment: `base` without what this stack left in it earlier, plus the variables."""
    result = {name: value for name, value in base.items() if not is_ours(name, base, variables, root)}
    chosen = {name for name in _CALLERS_CHOICE if name in result}
    result |= {name: value for name, value in variables.items() if name not in chosen}
    first, last = _path_ends()
    result["PATH"] = os.pathsep.join([first, result.get("PATH", os.defpath), last])
    return result


def as_shell(variables: Mapping[str, str]) -> str:
    """The text of `.local/env`, to be sourced by a POSIX shell."""
    first, last = (shlex.quote(end) for end in _path_ends())
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    return "\n".join(
        ["# Written by `python -m local_stack up`.", *lines, f'export PATH={first}:"$PATH":{last}', ""]
    )


def _path_ends() -> tuple[str, str]:
    """The environment's scripts go first; last, for those who have no psql, that of the embedded Postgres."""
    return sysconfig.get_path("scripts"), str(installed_binaries() / "bin")
