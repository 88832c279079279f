"""`python -m tests.chaos [PIPELINE …] [--kills 100] [--seed 1]`: a storm over each pipeline in turn.

Prints a line for each. Exits with 1 where anything is wrong afterwards. p95 is in seconds of the database's
clock, which goes ahead by the waits of the contracts, so it says nothing of real time.
"""

import argparse
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.chaos.scene import SCENES
from tests.chaos.services import running
from tests.chaos.storm import Report, Storm


def storm(pipeline: str, kills: int, seed: int, restarts: int = 2) -> Report:
    """A storm over the pipeline with services of its own, which are stopped afterwards."""
    scene = import_module(f"tests.chaos.{pipeline}")
    with (
        TemporaryDirectory(prefix="granary-chaos-") as folder,
        running(scene.NEEDS, Path(folder)) as (postgres, at),
    ):
        return Storm(
            scene.SCENE(at),
            postgres,
            at.database_url,
            kills=kills,
            seed=seed,
            restarts=restarts,
            tell=lambda line: print(line, file=sys.stderr, flush=True),
        ).run()


def told(pipeline: str, seed: int, report: Report) -> str:
    """The report in lines: the numbers, then each mistake with the seed."""
    took = ", ".join(f"{kind} {seconds:.0f} s" for kind, seconds in report.p95().items()) or "nothing held"
    line = (
        f"{pipeline}: {report.kills} kills in {report.runs} runs, {report.failed} other failures, "
        f"{report.restarts} restarts of Postgres; {report.items} items; {report.calls.made} outside calls, "
        f"{report.calls.faults} answered with a fault, {report.calls.repeated} repeated; "
        f"p95 from kill to done elsewhere: {took}; {len(report.mistakes)} mistakes"
    )
    return "\n".join([line, *(f"  seed {seed}: {mistake}" for mistake in report.mistakes)])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("pipelines", nargs="*", metavar="PIPELINE", help=", ".join(SCENES))
    parser.add_argument("--kills", type=int, default=100, help="of each pipeline (100)")
    parser.add_argument("--seed", type=int, default=1, help="of fatal steps, faults and additions (1)")
    asked = parser.parse_args()
    if asked.kills < 1:
        parser.error("--kills: at least 1")
    if unknown := set(asked.pipelines) - set(SCENES):
        parser.error(f"no pipeline {', '.join(sorted(unknown))}; there are {', '.join(SCENES)}")
    wrong = 0
    for pipeline in asked.pipelines or SCENES:
        report = storm(pipeline, asked.kills, asked.seed)
        print(told(pipeline, asked.seed, report), flush=True)
        wrong += len(report.mistakes)
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted; its services are stopped", file=sys.stderr)
        sys.exit(130)
