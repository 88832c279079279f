"""The search among one user's contexts, of a million that ten thousand users have.

Postgres runs with the local stack's settings, so it caches 128 MB itself; the rest is the operating system's.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median

import numpy as np
import psycopg
from numpy.typing import NDArray

from assets.context_tags import search_store
from assets.context_tags.models import DEFAULT_PROFILE
from benchmarks.bench import Bench, shipped_environment
from benchmarks.context_search_rows import Texts, Vectors, add_contexts
from benchmarks.rounds import percentile
from benchmarks.row import Row, row
from local_stack.postgres import DATABASE, EmbeddedPostgres
from local_stack.processes import PROJECT

LIMIT, FLOOR = 20, 0.30
TO_WARM_UP = 10


def measure(bench: Bench) -> list[Row]:
    """Each of some users, drawn evenly, searches once with all files out of memory, and then once more.

    Cold: Postgres was started anew and no page of its files is cached; only its catalogue is, and what
    ten other users' searches left. Warm: the same searches again.
    """
    contexts, users = bench.size(1_000_000, 20_000), bench.size(10_000, 200)
    searches = bench.size(400, 40)
    rng = np.random.default_rng(3)
    owners = _owners(rng, contexts, users)
    asking = rng.permutation(np.unique(owners))[: TO_WARM_UP + searches].tolist()
    queries = Texts(seed=4).vectors(len(asking))
    with _server(bench) as server:
        address = server.dsn(DATABASE)
        bench.say(f"copying {contexts:,} embeddings of {users:,} users")
        started = time.perf_counter()
        with psycopg.connect(address, autocommit=True) as connection:
            add_contexts(connection, owners)
        bench.say(f"copied in {time.perf_counter() - started:.0f} s; each of {searches} users searches twice")
        is_cold = _out_of_memory(server)
        with psycopg.connect(address, autocommit=True) as connection:
            _search(connection, asking[:TO_WARM_UP], queries[:TO_WARM_UP])
            users_and_queries = asking[TO_WARM_UP:], queries[TO_WARM_UP:]
            cold = _search(connection, *users_and_queries)
            warm = _search(connection, *users_and_queries)
    name = f"context_search: {contexts:,} embeddings"
    rows = [
        row(f"{name}, warm, p95", percentile(warm, 95), "ms", at_most=50),
        row(f"{name}, warm, median", median(warm), "ms"),
    ]
    if not is_cold:
        bench.say("no cold rows: this system does not let go of a file's pages")
        return rows
    return [
        *rows,
        row(f"{name}, cold, p95", percentile(cold, 95), "ms", at_most=50),
        row(f"{name}, cold, median", median(cold), "ms"),
    ]


def _owners(rng: np.random.Generator, contexts: int, users: int) -> NDArray[np.int64]:
    """Whose each context is: most users have few and some have many, and nobody's lie side by side."""
    shares = rng.exponential(size=users)
    return rng.choice(np.arange(1, users + 1), size=contexts, p=shares / shares.sum())


def _search(connection: psycopg.Connection, user_ids: Sequence[int], queries: Vectors) -> list[float]:
    """Milliseconds of each. Raises RuntimeError where half of the users find nothing."""
    milliseconds, found = [], 0
    for user_id, query in zip(user_ids, queries.tolist(), strict=True):
        started = time.perf_counter()
        found += bool(search_store.nearest(connection, user_id, query, DEFAULT_PROFILE, LIMIT, FLOOR))
        milliseconds.append((time.perf_counter() - started) * 1_000)
    if found < len(user_ids) / 2:
        raise RuntimeError(f"{found} of {len(user_ids)} searches found something")
    return milliseconds


@contextmanager
def _server(bench: Bench) -> Iterator[EmbeddedPostgres]:
    """A durable one of its own, which can be started anew without disturbing others; removed afterwards."""
    server = EmbeddedPostgres(bench.folder / "search" / "postgres")
    try:
        server.start(die_with_parent=True)
        server.furnish()
        environ = {**shipped_environment(), "DATABASE_URL": server.dsn(DATABASE)}
        subprocess.run([sys.executable, "-m", "migrations.upgrade"], cwd=PROJECT, env=environ, check=True)
        yield server
    finally:
        server.remove()


def _out_of_memory(server: EmbeddedPostgres) -> bool:
    """Starts the server anew, with none of its pages in memory; whether the system can do that."""
    if not hasattr(os, "posix_fadvise"):
        return False
    server.stop()  # which writes everything: only what is written can be let go
    for path in server.cluster.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
    server.start(die_with_parent=True)
    return True
