"""Calls that fail: what may pass, what is about one context, what hits everyone, what is a fault of ours."""

import threading
import traceback
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from assets.context_tags.asking import Asking, FaultyCall
from assets.context_tags.judgement import UnusableAnswer
from assets.context_tags.process import Judgement
from resources.api_failure import FAIL, RETRY, SUSPEND, ApiFailure, Verdict
from resources.errors import SpendingCapReached
from resources.openai_api import ApiUnavailable
from tests.integration.context_tags.scenes import TEXT, Core, Embeddings, Judge, Pool, axis, request, run

DONE = ("COMPLETED", "COMPLETED")


class StatusOfAnotherClient(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(TEXT)
        self.status_code = status


class APITimeoutError(Exception):
    """As clients of this API name it."""


def passing() -> list[Exception]:
    return [
        ApiUnavailable(Verdict(RETRY), "timeout", "no answer"),
        ApiFailure(Verdict(RETRY), "rate_limit_exceeded", "status 429", 429, 0.2),
        TimeoutError(TEXT),
        ConnectionResetError(TEXT),
        StatusOfAnotherClient(503),
        StatusOfAnotherClient(429),
        APITimeoutError(TEXT),
    ]


def suspending() -> list[Exception]:
    return [
        *(ApiFailure(Verdict(SUSPEND, why), why, "status 40x", 401) for why in ("AUTH", "QUOTA", "MODEL")),
        StatusOfAnotherClient(401),
        StatusOfAnotherClient(403),
        SpendingCapReached("no room"),
        SpendingCapReached("no room at all", by_this_call_alone=True),
    ]


def raising(error: Exception, times: int = 1_000) -> Callable[[object], None]:
    left = [times]

    def fail(_: object) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise error

    return fail


def named(error: Exception) -> str:
    return f"{type(error).__name__} {getattr(error, 'code', getattr(error, 'status_code', ''))}"


@pytest.mark.parametrize("error", passing(), ids=named)
def test_rule_14_what_may_pass_is_tried_three_times_and_leaves_both_stages_processing(
    core: Core, pool: Pool, error: Exception
) -> None:
    core.add(1, 2)
    core.add(3, embedding="COMPLETED")
    core.add_vector(3, axis(1))
    embeddings, judge = Embeddings(on_call=raising(error)), Judge(on_call=raising(error))
    waits: list[float] = []
    outcome = run(pool, 1, 2, 3, embeddings=embeddings, judge=judge, wait=waits.append)
    assert (len(embeddings.asked), len(judge.asked)) == (3, 3)
    assert core.states() == {
        1: ("PROCESSING", "PENDING"),
        2: ("PROCESSING", "PENDING"),
        3: ("COMPLETED", "PROCESSING"),
    }
    assert outcome.put_off.keys() == {1, 2, 3} and TEXT not in str(outcome.put_off)
    assert (outcome.failed, outcome.left, outcome.stopped_by) == ({}, set(), None)
    assert len(waits) == 4
    assert all(0 <= seconds <= most for seconds, most in zip(waits, [0.5, 1, 0.5, 1], strict=True))


def test_rule_14_what_has_passed_at_the_third_attempt_did_no_harm(core: Core, pool: Pool) -> None:
    core.add(1)
    outcome = run(
        pool,
        1,
        embeddings=Embeddings(on_call=raising(TimeoutError(), 2)),
        judge=Judge(on_call=raising(TimeoutError(), 2)),
    )
    assert (core.state(1), outcome.put_off, outcome.embedding_requests) == (DONE, {}, 3)


def test_rule_14_what_was_put_off_is_done_once_it_has_expired_and_is_requested_again(
    core: Core, pool: Pool, later_pool: Pool
) -> None:
    core.add(1)
    run(pool, 1, judge=Judge(on_call=raising(TimeoutError())))
    assert run(pool, 1).not_started == {1}
    embeddings = Embeddings()
    outcome = run(later_pool, 1, embeddings=embeddings)
    assert (embeddings.asked, outcome.retaken, core.state(1)) == ([], {1}, DONE)


def test_rule_14_a_database_that_is_lost_leaves_what_was_started_processing(
    core: Core, pool: Pool, later_pool: Pool
) -> None:
    core.add(1, 2)

    def lose(_: object) -> None:
        core.connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'a run'"
            " AND datname = current_database()"
        )

    with pytest.raises(psycopg.OperationalError):
        run(pool, 1, 2, embeddings=Embeddings(on_call=lose))
    assert set(core.states().values()) == {("PROCESSING", "PENDING")}
    assert run(later_pool, 1, 2).tagged == {1, 2}


def test_rule_15_a_refusal_fails_the_stage_that_was_refused(core: Core, pool: Pool) -> None:
    core.add(1, 2)
    refused = ApiFailure(Verdict(FAIL), "content_filter", "status 400", 400)

    def refuse(text: str) -> None:
        if text == "나쁜":
            raise refused

    judge = Judge(on_call=refuse)
    outcome = run(pool, request(1, "나쁜"), 2, judge=judge)
    assert (len(judge.asked), outcome.failed) == (2, {1: "content_filter"})
    assert core.states() == {1: ("COMPLETED", "FAILED"), 2: DONE}


def test_rule_15_an_answer_that_is_usable_at_the_third_attempt_is_taken(core: Core, pool: Pool) -> None:
    core.add(1)
    judge = Judge(on_call=raising(UnusableAnswer(), 2))
    run(pool, 1, judge=judge)
    assert (core.state(1), len(judge.asked)) == (DONE, 3)


@pytest.mark.parametrize("error", suspending(), ids=named)
def test_rule_16_what_hits_everyone_in_the_embedding_stage_ends_all_and_fails_none(
    core: Core, pool: Pool, error: Exception
) -> None:
    core.add(1, 2, 3)
    core.add(4, embedding="COMPLETED")
    core.add_vector(4, axis(1))
    embeddings, judge = Embeddings(on_call=raising(error)), Judge()
    outcome = run(pool, 4, 1, 2, 3, embeddings=embeddings, judge=judge, claimed_at_once=3)
    assert (len(embeddings.asked), judge.asked) == (1, [])
    assert core.states() == {
        1: ("PROCESSING", "PENDING"),
        2: ("PROCESSING", "PENDING"),
        3: ("PENDING", "PENDING"),
        4: ("COMPLETED", "PENDING"),
    }
    assert (outcome.failed, outcome.left) == ({}, {1, 2, 3, 4})
    assert isinstance(outcome.stopped_by, ApiFailure) and TEXT not in str(outcome.stopped_by)


def test_rule_16_a_key_that_is_revoked_in_the_middle_stops_the_calls_and_stores_those_under_way(
    core: Core, pool: Pool
) -> None:
    ids = range(1, 11)
    core.add(*ids)
    revoked, both = threading.Event(), threading.Barrier(2)

    def revoke(text: str) -> None:
        if text in ("글 1", "글 2"):
            both.wait(10)
        if text == "글 1":
            revoked.set()
            raise ApiFailure(Verdict(SUSPEND, "AUTH"), "invalid_api_key", "status 401", 401)
        assert revoked.wait(10)

    judge = Judge(on_call=revoke)
    outcome = run(pool, *(request(id_, f"글 {id_}") for id_ in ids), judge=judge, concurrency=2)
    assert sorted(text for text, _ in judge.asked)[:2] == ["글 1", "글 2"] and len(judge.asked) <= 3
    assert 2 in outcome.tagged and core.state(2) == DONE
    assert (outcome.failed, outcome.left) == ({}, set(ids) - outcome.tagged)
    assert core.state(1) == ("COMPLETED", "PROCESSING")
    assert {status for _, status in core.states().values()} == {"COMPLETED", "PROCESSING", "PENDING"}
    assert isinstance(outcome.stopped_by, ApiFailure) and outcome.stopped_by.verdict.reason == "AUTH"


def test_rule_16_a_call_whose_further_attempts_were_cut_off_is_left_and_not_handled(
    core: Core, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    core.add(1, 2)
    stopped, both = threading.Event(), threading.Barrier(2)
    stop = Asking.stop

    def told(asking: Asking) -> None:
        stop(asking)
        stopped.set()

    monkeypatch.setattr(Asking, "stop", told)

    def fail(text: str) -> None:
        both.wait(10)
        if text == "글 1":
            raise ApiFailure(Verdict(SUSPEND, "QUOTA"), "insufficient_quota", "status 429", 429)
        assert stopped.wait(10)
        raise TimeoutError

    judge = Judge(on_call=fail)
    outcome = run(pool, request(1, "글 1"), request(2, "글 2"), judge=judge, concurrency=2)
    assert (len(judge.asked), outcome.left, outcome.put_off) == (2, {1, 2}, {})
    assert set(core.states().values()) == {("COMPLETED", "PROCESSING")}


def test_a_fault_of_the_program_is_raised_without_its_words_once_what_was_under_way_is_stored(
    core: Core, pool: Pool
) -> None:
    core.add(1, 2)
    both = threading.Barrier(2)

    def break_(text: str) -> None:
        both.wait(10)
        if text == "글 1":
            raise ZeroDivisionError(TEXT)

    with pytest.raises(FaultyCall, match="ZeroDivisionError") as fault:
        run(pool, request(1, "글 1"), request(2, "글 2"), judge=Judge(on_call=break_), concurrency=2)
    assert TEXT not in "".join(traceback.format_exception(fault.value))
    assert core.states() == {1: ("COMPLETED", "PROCESSING"), 2: DONE}


def test_a_fault_of_the_program_in_the_embedding_stage_is_raised_without_its_words(
    core: Core, pool: Pool
) -> None:
    core.add(1, 2)
    embeddings = Embeddings(on_call=raising(KeyError(TEXT)))
    with pytest.raises(FaultyCall, match="KeyError") as fault:
        run(pool, 1, 2, embeddings=embeddings)
    assert TEXT not in "".join(traceback.format_exception(fault.value))
    assert (len(embeddings.asked), set(core.states().values())) == (1, {("PROCESSING", "PENDING")})


def test_rule_19_no_text_is_told_whatever_goes_wrong(
    core: Core, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "카나리아 문장"
    core.add(*range(1, 7))
    core.connection.execute("ALTER TABLE ai.context_keyword_analysis ADD CHECK (context_id <> 5)")
    texts: dict[str, Any] = {f"{secret} {id_}": axis(1) for id_ in range(1, 7)}
    texts[f"{secret} 1"] = axis(0)

    def fail(text: str) -> None:
        if text.endswith("2"):
            raise TimeoutError(text)
        if text.endswith("3"):
            raise ApiFailure(Verdict(FAIL), text, text, 400)
        if text.endswith("4"):
            raise UnusableAnswer(text)
        if text.endswith("6"):
            raise StatusOfAnotherClient(401)

    judge = Judge(Judgement((), (secret,), "a-model"), fail)
    requests = [request(id_, f"{secret} {id_}") for id_ in range(1, 7)]
    with caplog.at_level("DEBUG"):
        outcome = run(pool, *requests, embeddings=Embeddings(texts), judge=judge, concurrency=1)
    assert outcome.failed == {1: "zero", 3: "other", 4: "unusable_answer", 5: "cannot_be_stored"}
    assert (outcome.put_off, outcome.left) == ({2: "unavailable"}, {6})
    told = caplog.text + repr(outcome) + str(outcome.stopped_by) + repr(requests)
    told += str(core.rows("SELECT name, labels FROM granary.counter"))
    assert "카나리아" not in told and len(caplog.records) == 5
