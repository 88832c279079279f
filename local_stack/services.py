"""The services of the stack, built from remembered ports and secrets."""

from functools import cached_property
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from local_stack import environment
from local_stack.bucket import Bucket
from local_stack.mongo_server import MongoServer
from local_stack.postgres import EmbeddedPostgres
from local_stack.processes import Command
from local_stack.state import Secrets
from local_stack.web_stand_ins import front_pages, naver_site, openai_stand_in, recipe_api

# In the order they are started: Postgres last, since making its cluster takes a moment the others can use.
NAMES = (
    "openai_stand_in",
    "bucket",
    "naver_site",
    "front_pages",
    "recipe_api",
    "mongo_server",
    "postgres",
)


class Service(Protocol):
    """What the stack needs to know of each of them."""

    @property
    def name(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def address(self) -> str:
        """A URL without secrets."""

    def prepare(self) -> None:
        """What must be there before the process is started."""

    def command(self) -> Command: ...

    def check(self) -> None:
        """Raises unless the service really answers."""

    def furnish(self) -> None:
        """Makes what users expect to find in it; changes nothing when called again."""


class Services:
    """The services whose ports are known, by name, and the variables that lead to them."""

    def __init__(self, root: Path, ports: dict[str, int]) -> None:
        self._root = root
        self._by_name = {name: self._build(name, ports[name]) for name in NAMES if name in ports}

    @cached_property
    def _secrets(self) -> Secrets:
        return Secrets.load(self._root)

    def __getitem__(self, name: str) -> Service:
        return self._by_name[name]

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def _build(self, name: str, port: int) -> Service:
        data_dir = self._root / name
        match name:
            case "postgres":
                return EmbeddedPostgres(data_dir, port, log=log_file(self._root, name))
            case "bucket":
                keys = self._secrets.aws_access_key_id, self._secrets.aws_secret_access_key
                return Bucket(port, data_dir, *keys)
            case "mongo_server":
                return MongoServer(port, data_dir)
            case "openai_stand_in":
                return openai_stand_in(port, data_dir)
            case "front_pages":
                return front_pages(port)
            case "recipe_api":
                return recipe_api(port)
        return naver_site(port)

    def variables(self) -> dict[str, dict[str, str]]:
        """By service, the variables that lead programs to it; none for a Postgres that has no cluster yet."""
        found = {}
        for name, service in self._by_name.items():
            match service:
                case EmbeddedPostgres():
                    if service.cluster.exists():
                        found[name] = environment.postgres_variables(service)
                case Bucket():
                    found[name] = environment.bucket_variables(service)
                case MongoServer():
                    found[name] = environment.mongo_variables(service)
                case _ if name == "openai_stand_in":
                    found[name] = environment.openai_variables(service.address, self._secrets.openai_api_key)
                case _ if name == "front_pages":
                    found[name] = environment.front_pages_variables(service.address)
                case _ if name == "recipe_api":
                    found[name] = environment.recipe_api_variables(service.address)
                case _:
                    found[name] = environment.naver_variables(service.address)
        return found


def log_file(root: Path, name: str) -> Path:
    return root / "logs" / f"{name}.log"


def without_secrets(url: str) -> str:
    """The URL without user, password and query, to be shown; what is no URL is not shown at all."""
    parts = urlsplit(url)
    if not parts.hostname:
        return ""
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"
