"""A run over the inbox: what it takes, what it marks, how long it lingers, and what it leaves."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pytest

from resources.api_failure import SUSPEND, ApiFailure, Verdict
from tests.integration.context_tags.paid_runs import inbox_run, post, text_of
from tests.integration.context_tags.scenes import Core, Embeddings, Judge, Pool

DONE = ("COMPLETED", "COMPLETED")


class Clock:
    """Goes on only by waiting; `at` does something at a moment."""

    def __init__(self, **at: Any) -> None:
        self.now = 0.0
        self.at: dict[float, Any] = {}

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds
        for moment in [moment for moment in self.at if moment <= self.now]:
            self.at.pop(moment)()


def inbox(core: Core) -> dict[int, dict[str, Any]]:
    rows = core.rows("SELECT *, handled_at >= requested_at AS is_handled FROM granary.context_request")
    return {row["context_id"]: row for row in rows}


def test_a_handled_request_has_no_text_once_both_stages_are_final(
    core: Core, pool: Pool, connection: psycopg.Connection
) -> None:
    core.add(1, 2)
    core.add(3, embedding="CANCELLED", keyword="CANCELLED")
    post(connection, 1, 2, 3, 4)

    def fail(text: str) -> None:
        if text == text_of(2):
            raise TimeoutError

    outcome = inbox_run(pool, Embeddings(), Judge(on_call=fail)).run()
    assert (outcome.tagged, set(outcome.put_off), outcome.not_started) == ({1}, {2}, {3, 4})
    rows = inbox(core)
    assert {id_ for id_, row in rows.items() if row["is_handled"]} == {1, 2, 3, 4}
    assert {id_ for id_, row in rows.items() if row["text"] is None} == {1, 3}
    assert all(len(row["text_hmac"]) == 64 for row in rows.values())


def test_a_request_that_is_posted_again_meanwhile_waits_on(
    core: Core, pool: Pool, connection: psycopg.Connection
) -> None:
    core.add(1)
    post(connection, 1)
    again: list[int] = []

    def repeat(texts: list[str]) -> None:
        again.append(len(texts))
        post(core.connection, 1)

    outcome = inbox_run(pool, Embeddings(on_call=repeat), Judge()).run()
    assert (again, outcome.tagged, core.state(1)) == ([1], {1}, DONE)
    assert (inbox(core)[1]["is_handled"], inbox(core)[1]["text"]) == (True, None)


def test_a_run_goes_on_taking_what_arrives_until_nothing_came_for_the_linger(
    core: Core, pool: Pool, connection: psycopg.Connection
) -> None:
    clock = Clock()
    core.add(1, 2, 3)
    post(connection, 1)
    clock.at = {15: lambda: post(connection, 2), 30: lambda: post(connection, 3)}
    run = inbox_run(pool, Embeddings(), Judge(), linger_seconds=20, clock=clock, wait=clock.wait)
    outcome = run.run()
    assert outcome.tagged == {1, 2, 3} and clock.now == pytest.approx(50, abs=1)


def test_a_run_ends_after_its_time_also_under_steady_load(
    core: Core, pool: Pool, connection: psycopg.Connection
) -> None:
    clock = Clock()
    core.add(*range(1, 101))
    clock.at = {float(id_): lambda id_=id_: post(connection, id_) for id_ in range(1, 101)}
    run = inbox_run(
        pool, Embeddings(), Judge(), linger_seconds=20, most_seconds=50, clock=clock, wait=clock.wait
    )
    outcome = run.run()
    assert clock.now == pytest.approx(50, abs=1)
    assert outcome.tagged == set(range(1, len(outcome.tagged) + 1)) and 48 <= len(outcome.tagged) <= 51


def test_without_a_linger_a_run_ends_when_nothing_waits(core: Core, pool: Pool) -> None:
    waits: list[float] = []
    outcome = inbox_run(pool, Embeddings(), Judge(), wait=waits.append).run()
    assert (outcome.started, waits) == (0, [])


def test_a_run_takes_only_the_requests_of_its_days(
    core: Core, pool: Pool, connection: psycopg.Connection
) -> None:
    core.add(1, 2)
    post(connection, 1, 2)
    yesterday: date = datetime.now(UTC).date() - timedelta(days=1)
    connection.execute(
        "UPDATE granary.context_request SET requested_at = requested_at - interval '1 day'"
        " WHERE context_id = 2"
    )
    inbox_run(pool, Embeddings(), Judge(), days=[yesterday]).run()
    assert core.states() == {1: ("PENDING", "PENDING"), 2: DONE}


def test_more_than_is_claimed_at_once_is_taken_a_portion_at_a_time(
    core: Core, pool: Pool, connection: psycopg.Connection
) -> None:
    ids = range(1, 8)
    core.add(*ids)
    post(connection, *ids)
    embeddings = Embeddings()
    outcome = inbox_run(pool, embeddings, Judge(), settings={"claimed_at_once": 3}).run()
    assert [len(texts) for texts in embeddings.asked] == [3, 3, 1]
    assert (outcome.tagged, outcome.embedding_requests) == (set(ids), 3)


def test_rule_16_what_hits_everyone_ends_the_run_and_what_was_left_goes_on_waiting(
    core: Core, pool: Pool, connection: psycopg.Connection
) -> None:
    core.add(1, 2, 3)
    post(connection, 1, 2, 3)
    revoked = ApiFailure(Verdict(SUSPEND, "AUTH"), "invalid_api_key", "status 401", 401)

    def revoke(texts: list[str]) -> None:
        if texts == [text_of(2)]:
            raise revoked

    run = inbox_run(
        pool, Embeddings(on_call=revoke), Judge(), linger_seconds=20, settings={"claimed_at_once": 1}
    )
    outcome = run.run()
    assert (outcome.tagged, outcome.left, outcome.stopped_by) == ({1}, {2}, revoked)
    rows = inbox(core)
    assert [rows[id_]["is_handled"] for id_ in (1, 2, 3)] == [True, None, None]
    assert core.states() == {1: DONE, 2: ("PROCESSING", "PENDING"), 3: ("PENDING", "PENDING")}


def test_an_interrupted_run_leaves_its_requests_waiting(
    core: Core, pool: Pool, connection: psycopg.Connection
) -> None:
    core.add(1)
    post(connection, 1)

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        inbox_run(pool, Embeddings(on_call=interrupt), Judge()).run()
    assert (inbox(core)[1]["is_handled"], inbox(core)[1]["text"]) == (None, text_of(1))


def test_a_request_whose_text_is_forgotten_is_over(
    core: Core, pool: Pool, connection: psycopg.Connection
) -> None:
    core.add(1)
    post(connection, 1)
    connection.execute("UPDATE granary.context_request SET text = NULL")
    inbox_run(pool, Embeddings(), Judge()).run()
    assert (inbox(core)[1]["is_handled"], core.state(1)) == (True, ("PENDING", "PENDING"))
