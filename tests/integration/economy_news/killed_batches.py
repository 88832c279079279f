"""A step with batches that kills itself, as the kernel would, at a named point: `python -m ….killed_batches`.

Reads what to run from its standard input, a JSON object a line, forks a run for each and says how it ended:
the imports, most of such a run's time, are paid once. Production code knows nothing of the points.
"""

import json
import os
import sys
from collections.abc import Callable

import psycopg

from assets.economy_news import batch_store, job_store
from resources import batch_spending
from resources.batches import BatchApi
from tests.integration.economy_news.batching import a_step
from tests.integration.fatal_calls import after, before

LIMITS = {"max_lines": 2}

Points = dict[str, Callable[[], None]]

# The first of two batches goes well where a call is let through, so that something is done by then.
SENDING: Points = {
    "before the plan": lambda: before(batch_store, "plan_batch", 1),
    "before the money": lambda: before(batch_spending, "reserve", 0),
    "before the commit of the plan": lambda: after(batch_spending, "reserve", 1),
    "after the plan": lambda: before(BatchApi, "upload", 0),
    "after the upload": lambda: after(BatchApi, "upload", 1),
    "before the creation": lambda: before(BatchApi, "create", 0),
    "after the creation": lambda: after(BatchApi, "create", 1),
    "before its id is noted": lambda: before(batch_store, "mark_submitted", 0),
    "after its id is noted": lambda: after(batch_store, "mark_submitted", 0),
}
TAKING_IN: Points = {
    "after the lease": lambda: after(batch_store, "take", 0),
    "after the download": lambda: after(BatchApi, "download_to", 1),
    "before the finish": lambda: before(job_store, "finish_successes", 1),
    "before the commit of the finish": lambda: after(job_store, "finish_successes", 0),
    "before the money is settled": lambda: before(batch_spending, "settle", 1),
    "before the commit of the money": lambda: after(batch_spending, "settle", 0),
    "before the commit of the end": lambda: after(batch_store, "end", 1),
    "before the files are deleted": lambda: before(BatchApi, "delete_file", 0),
    "in the middle of deleting": lambda: after(BatchApi, "delete_file", 0),
    "before a deletion is noted": lambda: before(batch_store, "file_deleted", 0),
}
POINTS = {**SENDING, **TAKING_IN}


def main() -> None:
    import openai  # noqa: F401

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            asked = json.loads(line)
            with psycopg.connect(asked["database_url"], autocommit=True) as connection:
                POINTS[asked["point"]]()
                a_step(connection, asked["url"], "killed", limits=LIMITS)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
