"""A run over the inbox that kills itself, as the kernel would, at a named point: `python -m ….killed_run`.

Reads what to run from its standard input, a JSON object a line, forks a run for each and says how it ended:
the imports, most of such a run's time, are paid once. Production code knows nothing of the points.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from psycopg_pool import ConnectionPool

from assets.context_tags import embedding_store, keyword_store, request_store, state_store
from resources import spending
from resources.chat import ChatResource
from resources.embeddings import EmbeddingResource
from tests.integration.context_tags.paid_runs import whole_run
from tests.integration.context_tags.scenes import Pool
from tests.integration.fatal_calls import after, before
from tests.integration.late_imports import import_all

SETTINGS = {"concurrency": 2, "claimed_at_once": 2}
"""Two rounds over four contexts, so that something is done by then, and something is not."""

POINTS: dict[str, Callable[[], None]] = {
    "before the pre-check": lambda: before(state_store, "states", 1),
    "after embeddings are started": lambda: after(state_store, "start", 0),
    "before the money of embeddings": lambda: before(spending, "reserve", 0),
    "after the money of embeddings": lambda: after(spending, "reserve", 0),
    "after embeddings came": lambda: after(EmbeddingResource, "embed_unchecked", 0),
    "before embeddings are settled": lambda: before(spending, "settle", 0),
    "before the commit of the settlement": lambda: after(spending, "settle", 0),
    "before vectors are stored": lambda: before(embedding_store, "store", 1),
    "before the commit of vectors": lambda: after(embedding_store, "store", 1),
    "after keywords are started": lambda: after(state_store, "start", 1),
    "during a judgement": lambda: before(ChatResource, "ask", 1),
    "after a judgement": lambda: after(ChatResource, "ask", 1),
    "before keywords are stored": lambda: before(keyword_store, "store", 0),
    "before the commit of keywords": lambda: after(keyword_store, "store", 0),
    "before requests are handled": lambda: before(request_store, "handled", 0),
    "after requests are handled": lambda: after(request_store, "handled", 0),
}


@contextmanager
def run_at(database_url: str, at: str | None) -> Iterator[tuple[psycopg.Connection, Pool]]:
    """A run's connection and pool, whose clock stands still at `at` (ISO 8601), if given."""
    options = f"-c granary.now={at}" if at else ""
    kwargs = {"autocommit": True, "options": options, "application_name": "a run"}
    with (
        psycopg.connect(database_url, autocommit=True, options=options) as connection,
        ConnectionPool(database_url, kwargs=kwargs, min_size=0, max_size=2, timeout=10) as pool,
    ):
        yield connection, pool


def run(point: str, database_url: str, api: str) -> None:
    with run_at(database_url, None) as (connection, pool):
        POINTS[point]()
        whole_run(connection, pool, api, **SETTINGS)


def main() -> None:
    import_all()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(**json.loads(line))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
