"""A small storm over each pipeline: whatever was killed, faulty or restarted, all is in order afterwards.

The whole one is `make chaos`.
"""

import psycopg
import pytest

from tests.chaos.__main__ import storm
from tests.chaos.storm import SCENES, Report, postgres_is_gone

KILLS, SEED = 8, 3


@pytest.mark.parametrize("pipeline", SCENES)
def test_after_a_storm_every_item_is_in_its_right_final_state(pipeline: str) -> None:
    report = storm(pipeline, KILLS, SEED, restarts=1)

    assert report.mistakes == []
    assert report.kills >= KILLS and report.restarts == 1
    assert report.items > 0 and report.calls.faults > 0


def test_only_a_server_that_went_away_excuses_a_failed_run() -> None:
    assert postgres_is_gone(psycopg.errors.AdminShutdown())
    assert postgres_is_gone(psycopg.OperationalError("server closed the connection unexpectedly"))
    assert not postgres_is_gone(psycopg.errors.DeadlockDetected())
    assert not postgres_is_gone(psycopg.errors.UniqueViolation())


def test_p95_is_of_each_kind_of_item() -> None:
    report = Report(took={"job": [float(second) for second in range(1, 101)], "page": [7.0]})
    assert report.p95() == {"job": 95.0, "page": 7.0}
