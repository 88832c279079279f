"""The HTTP stand-ins (OpenAI API, news site, front pages, recipe API) as services of the stack."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from local_stack.loopback_http import expect_ok
from local_stack.ports import LOOPBACK
from local_stack.processes import Command


@dataclass(frozen=True)
class WebStandIn:
    """A module `local_stack.<name>` that serves HTTP on a port and answers `ready_path` with 200."""

    name: str
    port: int
    ready_path: str
    data_dir: Path | None = None

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def prepare(self) -> None:
        """Makes its folder, if it keeps anything."""
        if self.data_dir:
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)

    def command(self) -> Command:
        data: Sequence[str] = ["--data-dir", str(self.data_dir)] if self.data_dir else []
        arguments = [sys.executable, "-m", f"local_stack.{self.name}", "--port", str(self.port), *data]
        return Command(arguments, os.environ)

    def check(self) -> None:
        """Raises OSError or HTTPException unless `ready_path` is answered with 200."""
        expect_ok(self.port, self.ready_path)

    def furnish(self) -> None:
        """Nothing."""


def openai_stand_in(port: int, data_dir: Path) -> WebStandIn:
    return WebStandIn("openai_stand_in", port, "/_control/ledger/totals", data_dir)


def naver_site(port: int) -> WebStandIn:
    return WebStandIn("naver_site", port, "/robots.txt")


def front_pages(port: int) -> WebStandIn:
    return WebStandIn("front_pages", port, "/_control/requests")


def recipe_api(port: int) -> WebStandIn:
    return WebStandIn("recipe_api", port, "/_control/requests")
