"""The embedded MongoDB stand-in (see mongo_wire) as a service of the stack."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from local_stack.mongo_wire.wire import WireError, ask
from local_stack.ports import LOOPBACK
from local_stack.processes import Command

DATABASE = "granary"


@dataclass(frozen=True)
class MongoServer:
    """One process that keeps its collections as SQLite files in `data_dir`."""

    port: int
    data_dir: Path
    name: str = "mongo_server"

    @property
    def address(self) -> str:
        return f"mongodb://{LOOPBACK}:{self.port}/{DATABASE}"

    def prepare(self) -> None:
        """Makes its folder."""
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)

    def command(self) -> Command:
        arguments = [sys.executable, "-m", "local_stack.mongo_wire"]
        return Command([*arguments, "--port", str(self.port), "--data-dir", str(self.data_dir)], os.environ)

    def check(self) -> None:
        """Raises OSError or WireError unless a ping is answered."""
        if ask(self.port, {"ping": 1, "$db": "admin"}).get("ok") != 1:
            raise WireError("ping is not ok")

    def furnish(self) -> None:
        """Nothing: databases and collections come into being when written to."""
