"""The gate before an AI provider, on the real database with a moved clock."""

from collections.abc import Callable
from datetime import UTC, datetime

import psycopg
import pytest

from resources import gate
from resources.gate import GateKey

Connect = Callable[..., psycopg.Connection]

KEY = GateKey("a1b2c3d4e5f6", "gpt-4o-mini")
NOON = "2026-11-30 12:00+09:00"
BEFORE_THE_PROBE = "2026-11-30 12:29:59+09:00"
PROBE_TIME = "2026-11-30 12:30+09:00"
LATE_EVENING = "2026-11-30 23:59:59+09:00"
MIDNIGHT = "2026-12-01 00:00+09:00"


def test_a_gate_that_nobody_shut_is_open(connection: psycopg.Connection) -> None:
    assert gate.read(connection, KEY) is None
    assert gate.open_(connection, KEY) is False
    assert gate.claim_probe(connection, KEY, 30) is False


def test_a_shut_gate_says_why_since_when_and_what_to_do(connect: Connect) -> None:
    assert gate.shut(connect(NOON), KEY, "QUOTA", "the bill is not paid", 30)
    shut = gate.read(connect(NOON), KEY)
    assert shut is not None
    assert (shut.reason, shut.message, shut.probe_is_due) == ("QUOTA", "the bill is not paid", False)
    assert shut.since == datetime(2026, 11, 30, 3, 0, tzinfo=UTC)
    assert shut.next_probe_at == datetime(2026, 11, 30, 3, 30, tzinfo=UTC)
    assert "QUOTA: the bill is not paid" in shut.explain() and "resume_suspended" in shut.explain()


@pytest.mark.parametrize("reason", ["QUOTA", "AUTH", "MODEL", "BUDGET"])
def test_every_reason_has_a_remedy(connection: psycopg.Connection, reason: str) -> None:
    gate.shut(connection, KEY, reason, "why", 30)
    shut = gate.read(connection, KEY)
    assert shut is not None and shut.explain().endswith(gate.REMEDIES[reason])


def test_a_storm_of_answers_shuts_it_once_and_the_first_reason_stays(connect: Connect) -> None:
    assert gate.shut(connect(NOON), KEY, "QUOTA", "first", 30) is True
    for reason in ("AUTH", "MODEL", "BUDGET", "QUOTA"):
        assert gate.shut(connect(PROBE_TIME), KEY, reason, "later", 30) is False
    shut = gate.read(connect(NOON), KEY)
    assert shut is not None
    assert (shut.reason, shut.message) == ("QUOTA", "first")
    assert shut.since == datetime(2026, 11, 30, 3, 0, tzinfo=UTC)


def test_of_two_that_shut_it_at_once_one_did(connect: Connect) -> None:
    first, second = connect(NOON), connect(NOON)
    with first.transaction():
        assert gate.shut(first, KEY, "QUOTA", "first", 30)
        second.execute("SET lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):  # it waits for what the first will have done
            gate.shut(second, KEY, "AUTH", "second", 30)
    assert gate.shut(second, KEY, "AUTH", "second", 30) is False


def test_another_key_or_model_has_a_gate_of_its_own(connection: psycopg.Connection) -> None:
    gate.shut(connection, KEY, "AUTH", "why", 30)
    assert gate.read(connection, GateKey("another", KEY.model)) is None
    assert gate.read(connection, GateKey(KEY.provider_key, "another")) is None


def test_who_opens_it_is_told_once(connection: psycopg.Connection) -> None:
    gate.shut(connection, KEY, "AUTH", "why", 30)
    assert gate.open_(connection, KEY) is True
    assert gate.read(connection, KEY) is None
    assert gate.open_(connection, KEY) is False
    assert gate.shut(connection, KEY, "QUOTA", "anew", 30) is True


def test_a_long_message_is_cut(connection: psycopg.Connection) -> None:
    gate.shut(connection, KEY, "QUOTA", "x" * 5_000, 30)
    shut = gate.read(connection, KEY)
    assert shut is not None and len(shut.message) == 500


def test_the_probe_is_granted_to_nobody_before_it_is_due(connect: Connect) -> None:
    gate.shut(connect(NOON), KEY, "QUOTA", "why", 30)
    early = connect(BEFORE_THE_PROBE)
    assert gate.claim_probe(early, KEY, 30) is False
    shut = gate.read(early, KEY)
    assert shut is not None and not shut.probe_is_due


def test_the_probe_is_granted_to_exactly_one_of_two_connections(connect: Connect) -> None:
    gate.shut(connect(NOON), KEY, "QUOTA", "why", 30)
    first, second = connect(PROBE_TIME), connect(PROBE_TIME)
    for one in (first, second):  # both saw it due before either took it
        shut = gate.read(one, KEY)
        assert shut is not None and shut.probe_is_due
    assert gate.claim_probe(first, KEY, 30) is True
    assert gate.claim_probe(second, KEY, 30) is False
    shut = gate.read(second, KEY)
    assert shut is not None and not shut.probe_is_due
    assert shut.next_probe_at == datetime(2026, 11, 30, 4, 0, tzinfo=UTC)


def test_a_probe_that_waits_for_anothers_uncommitted_claim_is_not_granted(connect: Connect) -> None:
    gate.shut(connect(NOON), KEY, "QUOTA", "why", 30)
    first, second = connect(PROBE_TIME), connect(PROBE_TIME)
    second.execute("SET lock_timeout = '50ms'")
    with first.transaction():
        assert gate.claim_probe(first, KEY, 30) is True
        with pytest.raises(psycopg.errors.LockNotAvailable):
            gate.claim_probe(second, KEY, 30)
    assert gate.claim_probe(second, KEY, 30) is False


def test_a_probe_that_was_not_used_is_due_again_at_once(connect: Connect) -> None:
    gate.shut(connect(NOON), KEY, "QUOTA", "why", 30)
    holder = connect(PROBE_TIME)
    assert gate.claim_probe(holder, KEY, 30)
    gate.return_probe(holder, KEY)
    assert gate.claim_probe(connect(PROBE_TIME), KEY, 30) is True


def test_a_shut_budget_opens_at_midnight_in_seoul_and_grants_no_probe_before(connect: Connect) -> None:
    assert gate.shut(connect(NOON), KEY, "BUDGET", "the cap is reached", 30)
    evening = connect(LATE_EVENING)
    shut = gate.read(evening, KEY)
    assert shut is not None and shut.reason == "BUDGET" and not shut.probe_is_due
    assert gate.claim_probe(evening, KEY, 30) is False
    gate.return_probe(evening, KEY)
    assert gate.read(evening, KEY) is not None
    assert gate.read(connect(MIDNIGHT), KEY) is None


def test_a_budget_shut_after_midnight_in_seoul_lasts_the_whole_new_day(connect: Connect) -> None:
    # 15:00 UTC is midnight in Seoul: by the server's own time zone it is still the day before.
    gate.shut(connect("2026-11-30 15:00+00:00"), KEY, "BUDGET", "the cap is reached", 30)
    assert gate.read(connect("2026-12-01 14:59:59+00:00"), KEY) is not None
    assert gate.read(connect("2026-12-01 15:00+00:00"), KEY) is None


def test_a_budget_that_opened_by_itself_can_be_shut_anew(connect: Connect) -> None:
    gate.shut(connect(NOON), KEY, "BUDGET", "yesterday's cap", 30)
    tomorrow = connect(MIDNIGHT)
    assert gate.shut(tomorrow, KEY, "AUTH", "the key was revoked", 30) is True
    shut = gate.read(tomorrow, KEY)
    assert shut is not None and (shut.reason, shut.message) == ("AUTH", "the key was revoked")


def test_an_unknown_reason_is_refused_by_the_database(connection: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        gate.shut(connection, KEY, "WHIM", "why", 30)
