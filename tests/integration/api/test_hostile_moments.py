"""Generated visits, posted or written into the table: taken or refused, and no run that reads them fails."""

import json
from datetime import timedelta, timezone
from typing import Any

import psycopg
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from assets.recommendations.trigger_check import check_triggers
from operations.why import why
from orchestration.settings import Settings
from tests.bad_inputs import bad_inputs

on_one_database = settings(bad_inputs, suppress_health_check=[*HealthCheck])

TEXT = st.text(max_size=15)
OFFSETS = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.builds(lambda moment, zone: moment.replace(tzinfo=zone).isoformat(), st.datetimes(), OFFSETS)
ODD = st.sampled_from(
    [
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59.999999-23:59",
        "2026-11-30T12:00:60Z",
        "2026-11-30 12:00Z",
        "2026-11-30",
        "1780000000",
        "infinity",
        "٢٠٢٦-11-30T00:00:00Z",
    ]
)
VALUES = st.recursive(
    MOMENTS | ODD | TEXT | st.integers() | st.floats() | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
BODIES = (
    st.fixed_dictionaries({"occurredAt": MOMENTS | ODD | VALUES}, optional={"x": VALUES}).map(json.dumps)
    | VALUES.map(json.dumps)
    | TEXT
).map(str.encode) | st.binary(max_size=30)
MEMBERS = st.integers().map(str) | st.sampled_from(["1", str(2**63 - 1), str(2**63), "0", "-1", "+1", "٣"])


@on_one_database
@given(member=MEMBERS, body=BODIES, path=st.sampled_from(["/visits", "/profiling"]))
@example(member="1", body=b'{"occurredAt": "0001-01-01T00:00:00+23:59"}', path="/visits")
@example(member="1", body=b'{"occurredAt": "9999-12-31T23:59:59-23:59"}', path="/visits")
@example(member="1", body=b"[" * 100_000, path="/visits")
def test_any_body_is_taken_or_refused_and_told_of(
    contexts: TestClient, connection: psycopg.Connection, member: str, body: bytes, path: str
) -> None:
    ask = contexts.post if path == "/visits" else contexts.put
    answer = ask(
        f"/internal/v1/members/{member}{path}", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code in (202, 204, 400, 422)
    if answer.status_code < 300:
        history = why("member", member, connection, None, Settings())
        if history is not None:  # a visit before 1970 is none
            assert history.lines() and history.as_json()


WRITTEN = st.sampled_from(["-infinity", "infinity", "4713-01-01 BC", "294276-12-31"]) | MOMENTS


@on_one_database
@given(visits=st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1) | st.just(1), WRITTEN), max_size=5))
@example(visits=[(1, "-infinity"), (1, "infinity"), (1, "4713-01-01 BC"), (1, "294276-12-31")])
def test_any_visit_in_the_table_is_taken_out_of_it(
    connection: psycopg.Connection, visits: list[tuple[int, str]]
) -> None:
    insert = "INSERT INTO rec.member_visit (member_id, occurred_at) VALUES (%s, %s)"
    taken: list[Any] = []
    for one in visits:
        try:
            taken.append(connection.execute(insert, one))
        # Postgres knows no time zone of more than 15:59:59 hours; a member's number is positive.
        except (psycopg.IntegrityError, psycopg.DataError):
            continue
    counts = check_triggers(connection, clock=iter([0.0, 1.0, 2.0, 3.0]).__next__, until=3.0)
    assert counts.visits == len(taken) and 0 <= counts.visits_refused <= counts.visits
    left = connection.execute("SELECT count(*) FROM rec.member_visit WHERE consumed_at IS NULL").fetchone()
    assert left == (0,)
    connection.execute("SELECT * FROM rec.visit_trigger").fetchall()
