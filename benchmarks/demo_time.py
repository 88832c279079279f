"""`make demo` after install: with no data yet, and once more over what the first one left."""

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.bench import Bench, shipped_environment
from benchmarks.row import Row, row
from local_stack.processes import PROJECT


def measure(bench: Bench) -> list[Row]:
    """Whole processes, from the command to its exit; both must judge themselves right."""
    root = bench.home("demo") / ".local"
    bench.say("the demo, twice")
    first, second = _seconds(root), _seconds(root)
    return [
        row("demo: the first time", first, "s", at_most=90),
        row("demo: the second time", second, "s", at_most=30),
    ]


def _seconds(root: Path) -> float:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "local_stack", "--root", str(root), "demo"],
        cwd=PROJECT,
        env=shipped_environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - started
    if done.returncode != 0:
        raise RuntimeError(f"the demo judged itself wrong:\n{done.stdout}")
    return seconds
