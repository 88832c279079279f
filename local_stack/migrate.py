"""Brings the stack's database, or the one that the caller brought along, to the newest revision."""

import subprocess
import sys

from local_stack.errors import StackError
from local_stack.processes import PROJECT
from local_stack.stack import Stack


def migrate(stack: Stack) -> None:
    """Runs the migrations in a process of their own. Raises StackError with what they said."""
    done = subprocess.run(
        [sys.executable, "-m", "migrations.upgrade"],
        cwd=PROJECT,
        env=stack.process_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise StackError(f"the database could not be migrated:\n{done.stderr.strip()[-2000:]}")
