"""Runs killed one after the other at random statements: `python -m ….random_kills DAY SECTION SEED…`.

One process imports everything and forks a run per seed, since the imports are most of a run's time. Each
run takes over from the dead one before it, as the run-status sensor has it do.
"""

import os
import random
import signal
import sys
from datetime import date
from typing import Any

import psycopg

from assets.economy_news import job_store
from assets.economy_news.models import Partition
from tests.integration.economy_news.runs import crawl, enrich_all

MOST_STATEMENTS = 160


def die_at_statement(number: int) -> None:
    """Kills this process instead of, or right after, its statement of that number."""
    real = psycopg.Connection.execute
    made = [0]

    def execute(self: Any, *args: Any, **kwargs: Any) -> Any:
        made[0] += 1
        if made[0] == number and number % 2:
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(self, *args, **kwargs)
        if made[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    psycopg.Connection.execute = execute  # type: ignore[method-assign]


def run(seed: int, before: int | None, partition: Partition) -> None:
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        if before is not None:
            job_store.free_jobs_of_run(connection, f"killed {before}", delay_seconds=0)
        die_at_statement(random.Random(seed).randint(1, MOST_STATEMENTS))
        crawl(connection, [partition], os.environ["NAVER_BASE_URL"], run_id=f"killed {seed}")
        enrich_all(connection, [partition], os.environ["OPENAI_BASE_URL"], run_id=f"killed {seed}")


def main(partition: Partition, seeds: list[int]) -> None:
    import openai  # noqa: F401  before the forks, once for all

    before = None
    for seed in seeds:
        child = os.fork()
        if child == 0:
            run(seed, before, partition)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(seed, os.waitstatus_to_exitcode(status), flush=True)
        before = seed


if __name__ == "__main__":
    main(Partition(date.fromisoformat(sys.argv[1]), sys.argv[2]), [int(seed) for seed in sys.argv[3:]])
