"""A small storm over each pipeline: whatever was killed, faulty or restarted, all is in order afterwards.

The whole one is `make chaos`.
"""

import threading
from pathlib import Path
from typing import cast

import psycopg
import pytest

from tests.chaos import storm as storms
from tests.chaos.__main__ import storm
from tests.chaos.scene import SCENES, Calls, Scene
from tests.chaos.services import running
from tests.chaos.storm import Report, Storm, postgres_is_gone
from tests.integration.fatal_calls import die

KILLS, SEED = 8, 3


@pytest.mark.parametrize("pipeline", SCENES)
def test_after_a_storm_every_item_is_in_its_right_final_state(pipeline: str) -> None:
    report = storm(pipeline, KILLS, SEED, restarts=1)

    assert report.mistakes == []
    assert report.kills >= KILLS and report.restarts == 1
    assert report.took  # some killed run had something in hand, or the storm would go on
    assert report.items > 0 and report.calls.faults > 0


def test_only_a_server_that_went_away_excuses_a_failed_run() -> None:
    assert postgres_is_gone(psycopg.errors.AdminShutdown())
    assert postgres_is_gone(psycopg.OperationalError("server closed the connection unexpectedly"))
    assert not postgres_is_gone(psycopg.errors.DeadlockDetected())
    assert not postgres_is_gone(psycopg.errors.UniqueViolation())


def test_p95_is_of_each_kind_of_item() -> None:
    report = Report(took={"job": [float(second) for second in range(1, 101)], "page": [7.0]})
    assert report.p95() == {"job": 95.0, "page": 7.0}


class NothingToDo:
    """A scene with no items, whose every run does the same."""

    name, tick_seconds, starts_at = "nothing", 60.0, None

    def __init__(self, error: str | None = None) -> None:
        self._error = error

    def work(self, run_id: str, number: int) -> None:
        if self._error:
            raise ValueError(self._error)
        threading.Event().wait()

    def __getattr__(self, name: str) -> object:
        answers = {
            "waiting": [],
            "judge": [],
            "held": set(),
            "done": set(),
            "items": 0,
            "calls": Calls(0, 0, 0),
        }
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_: answers.get(name, False)


class DiesEmptyHanded(NothingToDo):
    """Its every run is killed before it has claimed anything."""

    def work(self, run_id: str, number: int) -> None:
        die()


def report_of(scene: NothingToDo, folder: Path) -> Report:
    with running((), folder) as (postgres, at):
        return Storm(cast(Scene, scene), postgres, at.database_url, kills=1, seed=1, restarts=0).run()


def test_a_run_that_hangs_is_ended_and_is_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storms, "MOST_SECONDS_A_RUN", 0.1)
    report = report_of(NothingToDo(), tmp_path)
    assert "storm-1-1 hung and was ended" in report.mistakes
    assert report.kills == 0 and report.failed == report.runs


def test_a_storm_that_took_nothing_out_of_a_runs_hands_goes_on_and_says_so(tmp_path: Path) -> None:
    report = report_of(DiesEmptyHanded(), tmp_path)
    assert report.kills > storms.MOST_RUNS_A_KILL  # one was wanted
    assert any("none of them had anything in hand" in mistake for mistake in report.mistakes)


def test_a_run_whose_error_has_a_long_story_ends_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storms, "MOST_SECONDS_A_RUN", 30)
    report = report_of(NothingToDo("long " * 100_000), tmp_path)
    assert report.mistakes[0].startswith("storm-1-") and "ended with 4" in report.mistakes[0]
    assert not any("hung" in mistake for mistake in report.mistakes)
