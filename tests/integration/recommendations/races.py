"""Fixes the order of two connections: one goes on only when the other waits for it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

MOST_LOOKS = 20_000


@contextmanager
def waiting_for(
    holder: psycopg.Connection, watcher: psycopg.Connection, work: Callable[[], Any]
) -> Iterator[list[Any]]:
    """Starts `work` in a thread and enters once its connection waits for a lock of `holder`'s.

    When the block has let the lock go, the list holds what `work` has returned.
    """
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()), daemon=True)
    thread.start()
    blocked = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
    for _ in range(MOST_LOOKS):
        if watcher.execute(blocked, (holder.info.backend_pid,)).fetchone() != (0,):
            break
        assert thread.is_alive(), "it did not wait"
    else:
        raise AssertionError("it does not wait")
    yield results
    thread.join(timeout=10)
    assert not thread.is_alive()
