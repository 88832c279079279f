"""MongoDB's times are Postgres' `granary.now()`: a machine whose clock is off by months changes none."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from assets.recipes.batch_store import BATCHES
from assets.recipes.job_store import JOBS
from tests.integration.recipes.batch_runs import Runs, fetched, no_batches
from tests.integration.recipes.job_records import Mongo
from tests.integration.stand_ins import StandIn

THEN = datetime(2026, 3, 1, 9, tzinfo=UTC)


@pytest.fixture
def api(openai_api: StandIn) -> Iterator[StandIn]:
    with no_batches(openai_api) as one:
        yield one


def times_in(value: object) -> list[datetime]:
    """Every moment in a document, in whatever depth."""
    if isinstance(value, datetime):
        return [value]
    parts: list[Any] = (
        [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    )
    return [moment for part in parts for moment in times_in(part)]


def test_what_a_run_writes_down_has_the_databases_time(
    db: Mongo, connect: Callable[..., psycopg.Connection], api: StandIn
) -> None:
    fetched(db, 3)
    before = times_in(list(db[JOBS].find()))
    sent = Runs(db, connect(at=THEN.isoformat()), api.url).submit()
    assert sent.batches == 1
    planned = times_in(list(db[BATCHES].find()))
    assert len(planned) >= 2
    written = [*planned, *(one for one in times_in(list(db[JOBS].find())) if one not in before)]
    assert all(abs(moment - THEN) < timedelta(minutes=1) for moment in written), written
