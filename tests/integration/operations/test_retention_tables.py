"""What the pipelines' tables lose with time, and that nothing is done twice for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from typing import Any

import psycopg
import pytest

from assets.context_tags import request_store, state_store
from assets.context_tags.models import Stage
from assets.economy_news import repair_store
from assets.economy_news.models import JobType
from assets.recommendations import trigger_store
from assets.recommendations.trigger_check import finalised
from assets.recommendations.visit_store import visit
from operations import retention_store
from operations.retention import Part, Purged, purge_all, table_parts
from tests.integration.context_tags.store_rows import ask, put_embedding, put_preset, put_state, vector
from tests.integration.economy_news.factories import a_job, an_article

Connection = psycopg.Connection
Connect = Callable[..., Connection]

BEFORE, NOW = "2026-03-02T12:00:00+00:00", "2026-06-02T12:00:00+00:00"
"""Three months apart; inbox rows are kept for 30 days here, jobs for 60."""


@pytest.fixture
def then(connect: Connect) -> Connection:
    return connect(at=BEFORE)


@pytest.fixture
def now(connect: Connect) -> Connection:
    return connect(at=NOW)


def purge(connection: Connection, inbox_days: int = 30, job_days: int = 60) -> dict[str, int]:
    """What each part took that took something."""

    @contextmanager
    def connect() -> Iterator[Connection]:
        yield connection

    purged = purge_all(table_parts(connect, inbox_days, job_days))
    assert [one for one in purged if one.error or one.left] == []
    return {one.name: one.rows for one in purged if one.rows}


def column(connection: Connection, query: str) -> list[Any]:
    return [row[0] for row in connection.execute(query.encode()).fetchall()]


def posted_and_over(connection: Connection, *context_ids: int, state: str = "COMPLETED") -> None:
    for context_id in context_ids:
        put_state(connection, context_id, embedding=state, keyword=state)
        request_store.accept(connection, ask(context_id), None, "hash-1", False)
    request_store.handled(connection, request_store.waiting(connection, None, 100))


def test_the_row_of_a_context_that_is_over_goes_and_the_state_still_refuses_it(
    then: Connection, now: Connection
) -> None:
    posted_and_over(then, 1)
    assert purge(now) == {"context_requests": 1}
    request_store.accept(now, ask(1, text="다른 글"), None, "hash-2", False)
    waiting = request_store.waiting(now, None, 10)
    assert [one.context_id for one in waiting] == [1]
    assert state_store.start(now, Stage.EMBEDDING, [1], 600) == {}
    assert state_store.start(now, Stage.KEYWORD, [1], 600) == {}
    request_store.handled(now, waiting)
    assert column(now, "SELECT text FROM granary.context_request") == [None]


def test_a_context_that_is_not_over_keeps_the_hash_that_another_text_is_refused_by(
    then: Connection, now: Connection
) -> None:
    posted_and_over(then, 1, state="PROCESSING")
    then.execute("UPDATE granary.context_request SET text = NULL")
    assert purge(now) == {}
    request_store.accept(now, ask(1, text="다른 글"), None, "hash-2", False)
    assert column(now, "SELECT text FROM granary.context_request") == [None]


def test_a_row_stays_that_alone_tells_whose_the_keywords_are(then: Connection, now: Connection) -> None:
    posted_and_over(then, 1, 2)
    put_embedding(then, 2, vector(1.0))
    put_preset(then, 301)
    then.execute("INSERT INTO ai.context_keyword VALUES (1, 301, 1, 1), (2, 301, 1, 1)")
    assert purge(now) == {"context_requests": 1}
    assert column(now, "SELECT context_id FROM granary.context_request") == [1]


def test_a_young_row_a_waiting_one_and_one_with_its_text_stay(then: Connection, now: Connection) -> None:
    posted_and_over(now, 1)
    put_state(then, 2, 3, embedding="COMPLETED", keyword="COMPLETED")
    request_store.accept(then, ask(2), None, "hash", False)
    request_store.accept(then, ask(3), None, "hash", False)
    then.execute("UPDATE granary.context_request SET handled_at = requested_at WHERE context_id = 3")
    assert purge(now) == {}


def queue_what_is_due(connection: Connection) -> int:
    now = trigger_store.now(connection)
    leased = trigger_store.lease_due(connection, 100, 300)
    return trigger_store.finalise(connection, [finalised(one, now) for one in leased]).queued


def test_a_visit_that_comes_again_after_its_items_went_is_not_queued_again(
    connect: Connect, now: Connection
) -> None:
    visited_at = datetime.fromisoformat(BEFORE)
    visit(connect(at=BEFORE), 7, visited_at)
    for hours in (1, 4, 12):
        later = connect(at=(visited_at + timedelta(hours=hours)).isoformat())
        assert queue_what_is_due(later) == 1
        later.execute("UPDATE rec.queue_item SET status = 'SUCCEEDED', finished_at = granary.now()")
    later.execute("DELETE FROM rec.visit_trigger")  # as after its last time
    assert purge(now) == {"queue_items": 2}
    assert visit(now, 7, visited_at)
    assert queue_what_is_due(now) == 0
    assert len(column(now, "SELECT id FROM rec.queue_item")) == 1


def test_an_open_item_a_young_one_and_the_one_that_products_come_from_stay(
    then: Connection, now: Connection
) -> None:
    for hours, ended_at in ((1, BEFORE), (4, BEFORE), (12, BEFORE), (24, None), (36, NOW)):
        then.execute(
            "INSERT INTO rec.queue_item (member_id, last_visited_at, due_offset, candidate_generation_type,"
            " status, queued_at, finished_at) VALUES (7, %s, make_interval(hours => %s), 'G2', %s, %s, %s)",
            (BEFORE, hours, "SUCCEEDED" if ended_at else "PENDING", BEFORE, ended_at),
        )
    then.execute(
        "INSERT INTO rec.recommended_product SELECT 7, 1, 1, 1, 'G2', id, granary.now() FROM rec.queue_item"
        " WHERE due_offset = '4 hours'"
    )
    assert purge(now) == {"queue_items": 1}
    offsets = column(now, "SELECT extract(hours FROM due_offset)::int FROM rec.queue_item ORDER BY 1")
    assert offsets == [1, 4, 24, 36]


def test_visits_and_requests_go_once_they_were_taken(then: Connection, now: Connection) -> None:
    then.execute(
        "INSERT INTO rec.member_visit (member_id, occurred_at, consumed_at) VALUES (1, %(at)s, %(at)s),"
        " (2, %(at)s, NULL), (3, %(at)s, granary.now() + interval '90 days')",
        {"at": BEFORE},
    )
    then.execute(
        "INSERT INTO raw.request (day, source, force, requested_at, started_at)"
        " VALUES ('2026-03-01', 'kr/news', false, %(at)s, %(at)s),"
        " ('2026-03-01', 'kr/shop', true, %(at)s, NULL)",
        {"at": BEFORE},
    )
    assert purge(now) == {"member_visits": 1, "raw_requests": 1}
    assert column(now, "SELECT member_id FROM rec.member_visit ORDER BY 1") == [2, 3]
    assert column(now, "SELECT source FROM raw.request") == ["kr/shop"]


def test_the_newest_pass_of_each_kind_stays_and_so_does_one_to_be_repeated(
    then: Connection, now: Connection
) -> None:
    for kind, day, scanned, due in (
        ("daily", 1, True, False),
        ("daily", 2, False, True),
        ("daily", 3, False, False),
        ("daily", 4, True, False),
        ("supplementary", 1, True, False),
    ):
        at = datetime.fromisoformat(f"2026-03-0{day}T00:00:00+00:00")
        then.execute(
            "INSERT INTO raw.pass (kind, scheduled_at, day, started_at, scanned_at, due_at)"
            " VALUES (%s, %s, %s, %s, %s, %s)",
            (kind, at, at.date(), at, at if scanned else None, at if due else None),
        )
    then.execute(
        "INSERT INTO raw.failure_log (type, kind, timestamp, error, environment, run_id)"
        " VALUES ('E', 'SCAN', granary.now(), 'e', 'test', 'old'),"
        " ('E', 'SCAN', granary.now() + interval '50 days', 'e', 'test', 'young')"
    )
    assert purge(now, job_days=30) == {"raw_passes": 2, "raw_failures": 1}
    left = now.execute("SELECT kind, extract(day FROM day)::int FROM raw.pass ORDER BY id").fetchall()
    assert left == [("daily", 2), ("daily", 4), ("supplementary", 1)]
    assert column(now, "SELECT run_id FROM raw.failure_log") == ["young"]


def test_alarms_that_stand_and_the_last_heartbeat_stay(then: Connection, now: Connection) -> None:
    for cause, day, cleared in (
        ("gate:m", date(2026, 2, 1), True),
        ("scan", date(2026, 2, 1), False),
        ("scan", date(2026, 2, 2), False),
        ("heartbeat", date(2026, 2, 1), True),
        ("heartbeat", date(2026, 2, 2), True),
        ("gate:m", date(2026, 6, 1), True),
    ):
        then.execute(
            "INSERT INTO granary.alert (cause, day, message, raised_at, cleared_at)"
            " VALUES (%s, %s, 'm', %s, %s)",
            (cause, day, day, day if cleared else None),
        )
    assert purge(now) == {"alerts": 3}
    left = now.execute("SELECT cause, day::text FROM granary.alert ORDER BY 1, 2").fetchall()
    assert left == [("gate:m", "2026-06-01"), ("heartbeat", "2026-02-02"), ("scan", "2026-02-02")]


def a_result(connection: Connection, job_id: int, redo_number: int = 0, **card: int) -> int:
    """The id of a result of the job as it was asked last; with `term=`, one with a card of that term."""
    (result_id,) = column(
        connection,
        "INSERT INTO news.ai_result (job_id, redo_number, article_id, job_type, model, prompt_version,"  # noqa: S608
        " input_hash, output_hash, input_tokens, cached_tokens, output_tokens, cost_usd, original_url,"
        f" run_id, asked_at, created_at) SELECT id, {redo_number}, article_id, job_type, model,"
        " prompt_version, input_hash, 'out', 1, 0, 1, 0, 'u', 'r', asked_at, granary.now() FROM news.ai_job"
        f" WHERE id = {job_id} RETURNING id",
    )
    if card:
        connection.execute(
            "INSERT INTO news.term_card SELECT %s, 1, article_id, %s, 't', 'h', 'd' FROM news.ai_job"
            " WHERE id = %s",
            (result_id, card["term"], job_id),
        )
    return int(result_id)


def the_next_job(connection: Connection, article_id: int, status: str, days: int, **more: Any) -> int:
    """A job of another prompt, asked so many days after BEFORE."""
    job_id = a_job(connection, article_id, status, prompt_version=f"v{days}", **more)
    connection.execute(
        "UPDATE news.ai_job SET asked_at = granary.now() + make_interval(days => %(days)s), settled_at ="
        " CASE WHEN status IN ('SUCCESS', 'FAILED') THEN granary.now() + make_interval(days => %(days)s) END"
        " WHERE id = %(id)s",
        {"days": days, "id": job_id},
    )
    return job_id


def test_a_job_that_a_newer_one_has_replaced_goes_with_its_results(then: Connection, now: Connection) -> None:
    article = an_article(then)
    old, new = (the_next_job(then, article, "SUCCESS", days) for days in (0, 2))
    a_result(then, old)
    kept = a_result(then, new)
    assert purge(now) == {"news_results": 1, "news_jobs": 1}
    assert column(now, "SELECT id FROM news.ai_job") == [new]
    assert column(now, "SELECT id FROM news.newest_result") == [kept]


def test_the_result_that_readers_see_stays_where_the_newest_job_has_failed(
    then: Connection, now: Connection
) -> None:
    article = an_article(then)
    old, failed, waiting = (
        the_next_job(then, article, status, days)
        for days, status in ((0, "SUCCESS"), (1, "FAILED"), (2, "RETRY_WAIT"))
    )
    kept = a_result(then, old)
    assert purge(now) == {"news_jobs": 1}
    assert column(now, "SELECT id FROM news.ai_job ORDER BY id") == [old, waiting]
    assert column(now, "SELECT id FROM news.newest_result") == [kept]
    assert failed not in (old, waiting)


def test_earlier_results_of_a_job_that_was_redone_go_and_it_stays(then: Connection, now: Connection) -> None:
    job = the_next_job(then, an_article(then), "SUCCESS", 0)
    a_result(then, job)
    then.execute("UPDATE news.ai_job SET redo_number = 1, asked_at = asked_at + interval '1 hour'")
    kept = a_result(then, job, redo_number=1)
    assert purge(now) == {"news_results": 1}
    assert column(now, "SELECT id FROM news.ai_result") == [kept]
    assert column(now, "SELECT id FROM news.ai_job") == [job]


@pytest.mark.parametrize("status", ["PENDING", "RUNNING", "RETRY_WAIT"])
def test_a_job_that_is_under_way_stays_though_it_is_replaced(
    then: Connection, now: Connection, status: str
) -> None:
    article = an_article(then)
    the_next_job(then, article, status, 0)
    the_next_job(then, article, "SUCCESS", 1)
    assert purge(now) == {}


def test_a_young_job_and_its_result_stay_though_they_are_replaced(then: Connection, now: Connection) -> None:
    article = an_article(then)
    young, newest = (the_next_job(then, article, "SUCCESS", days) for days in (40, 50))
    a_result(now, young)
    a_result(now, newest)
    assert purge(now) == {}


def test_the_card_that_the_dictionarys_definition_comes_from_stays_for_a_takedown_to_find(
    then: Connection, now: Connection
) -> None:
    (first_of_two, own) = (
        column(
            then,
            "INSERT INTO news.term (term_key, term, definition, created_at)"  # noqa: S608
            f" VALUES ('{key}', 't', 'd', now()) RETURNING id",
        )[0]
        for key in ("a", "b")
    )
    cards = {"job_type": JobType.TERM_CARDS}
    one, two = an_article(then, 1), an_article(then, 2)
    giving = a_result(then, the_next_job(then, one, "SUCCESS", 0, **cards), term=first_of_two)
    giving_too = a_result(then, the_next_job(then, two, "SUCCESS", 0, **cards), term=own)
    spare = a_result(then, the_next_job(then, two, "SUCCESS", 1, **cards), term=first_of_two)
    newest = [
        a_result(then, the_next_job(then, each, "SUCCESS", 5, **cards), term=own) for each in (one, two)
    ]
    assert purge(now) == {"news_results": 1, "news_jobs": 1}
    assert column(now, "SELECT id FROM news.ai_result ORDER BY id") == [giving, giving_too, *newest]
    assert spare not in column(now, "SELECT result_id FROM news.term_card")


def a_term(connection: Connection, definition: str) -> int:
    """The id of a term of the dictionary with that definition."""
    (term,) = connection.execute(
        "INSERT INTO news.term (term_key, term, definition, created_at) VALUES ('a', 't', %s, now())"
        " RETURNING id",
        (definition,),
    ).fetchone() or (0,)
    return int(term)


def a_card(connection: Connection, article_id: int, days: int, term: int, definition: str) -> int:
    """The id of a result whose card defines the term so."""
    job = the_next_job(connection, article_id, "SUCCESS", days, job_type=JobType.TERM_CARDS)
    result = a_result(connection, job, term=term)
    connection.execute("UPDATE news.term_card SET definition = %s WHERE result_id = %s", (definition, result))
    return result


def take_down(connection: Connection, article_id: int) -> None:
    row = connection.execute("SELECT oid, aid FROM news.article WHERE id = %s", (article_id,)).fetchone()
    assert row is not None
    with connection.transaction():
        repair_store.take_down(connection, *row, prompt_version="v", model="m", min_characters=1)


def test_a_definition_goes_with_its_article_though_another_card_has_the_smaller_id(
    then: Connection, now: Connection
) -> None:
    other, giving = an_article(then, 1), an_article(then, 2)
    term = a_term(then, "of the giving article")
    a_card(then, other, 0, term, "of the other article")
    a_card(then, giving, 0, term, "of the giving article")
    a_result(then, the_next_job(then, giving, "SUCCESS", 5, job_type=JobType.TERM_CARDS))
    assert purge(now) == {}
    take_down(now, giving)
    assert column(now, "SELECT definition FROM news.term") == ["of the other article"]


def test_a_definition_stays_where_another_article_with_the_term_is_taken_down(then: Connection) -> None:
    other, giving, taken_down = (an_article(then, number) for number in (1, 2, 3))
    term = a_term(then, "of the giving article")
    for article, of in ((other, "other"), (giving, "giving"), (taken_down, "third")):
        a_card(then, article, 0, term, f"of the {of} article")
    take_down(then, taken_down)
    assert column(then, "SELECT definition FROM news.term") == ["of the giving article"]


def test_a_takedown_falls_back_on_no_card_that_is_being_cleared_up(
    then: Connection, now: Connection, connect: Connect
) -> None:
    giving, other = an_article(then, 1), an_article(then, 2)
    term = a_term(then, "of the giving article")
    a_card(then, giving, 0, term, "of the giving article")
    a_card(then, other, 0, term, "of the other article")
    a_result(then, the_next_job(then, other, "SUCCESS", 5, job_type=JobType.TERM_CARDS))
    live = connect(at=NOW)
    live.execute("SET lock_timeout = '100ms'")
    with now.transaction():
        assert next(retention_store.delete_superseded(now, "news_results", 60)) == 1
        with pytest.raises(psycopg.errors.LockNotAvailable):
            take_down(live, giving)
    take_down(live, giving)
    assert column(now, "SELECT definition FROM news.term") == []


def test_a_part_that_waits_for_a_lock_is_reported_and_the_others_go_on(
    then: Connection, now: Connection, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention_store, "LOCK_SECONDS", 0.1)
    then.execute(
        "INSERT INTO rec.member_visit (member_id, occurred_at, consumed_at) VALUES (1, %(at)s, %(at)s)",
        {"at": BEFORE},
    )

    @contextmanager
    def on_now() -> Iterator[Connection]:
        yield now

    other = connect()
    with other.transaction():
        other.execute("LOCK TABLE granary.context_request IN SHARE MODE")
        done = {one.name: one for one in purge_all(table_parts(on_now, 30, 60))}
    assert done["context_requests"] == Purged("context_requests", 0, error="LockNotAvailable")
    assert done["member_visits"] == Purged("member_visits", 1)
    assert [one.name for one in done.values() if one.error] == ["context_requests"]
    assert column(now, "SELECT current_setting('statement_timeout')") == ["2min"]


def test_a_batch_goes_once_no_job_names_it_and_its_money_was_settled(
    then: Connection, now: Connection
) -> None:
    article = an_article(then)
    for plan, files in (("named", "{}"), ("with-files", "{file-1}"), ("over", "{}")):
        then.execute(
            "INSERT INTO news.ai_batch (plan, job_type, day, prompt_version, model, status, jobs,"
            " queued_tokens, planned_at, ended_at, files_left) VALUES"
            " (%s, 'SUMMARY', '2026-03-01', 'v', 'm', 'TAKEN_IN', 1, 0, granary.now(), granary.now(), %s)",
            (plan, files),
        )
    the_next_job(then, article, "SUCCESS", 0)
    then.execute("UPDATE news.ai_job SET batch_plan = 'named'")
    then.execute("INSERT INTO granary.spending_day (day) VALUES ('2026-03-02')")
    then.execute(
        "INSERT INTO granary.batch_reservation VALUES"
        " ('settled', 'recipes', 'm', '2026-03-02', 1, granary.now(), granary.now()),"
        " ('open', 'recipes', 'm', '2026-03-02', 1, granary.now(), NULL)"
    )
    assert purge(now) == {"batch_reservations": 1, "news_batches": 1}
    assert column(now, "SELECT plan FROM news.ai_batch ORDER BY 1") == ["named", "with-files"]
    assert column(now, "SELECT intent FROM granary.batch_reservation") == ["open"]


def test_portions_go_on_past_rows_that_stay(then: Connection, now: Connection) -> None:
    for number in range(5):
        article = an_article(then, number)
        for days in range(3):
            a_result(then, the_next_job(then, article, "SUCCESS", days))
    assert sum(retention_store.delete_superseded(now, "news_results", 60, limit=2)) == 10
    assert sum(retention_store.delete_superseded(now, "news_jobs", 60, limit=2)) == 10
    posted_and_over(then, *range(1, 6))
    portions = list(retention_store.delete_ended(now, "context_requests", 30, limit=2))
    assert portions == [2, 2, 1]


def test_rows_that_live_work_holds_are_left_and_nobody_waits(
    then: Connection, connect: Connect, now: Connection
) -> None:
    posted_and_over(then, 1, 2)
    article = an_article(then)
    a_result(then, the_next_job(then, article, "SUCCESS", 0))
    the_next_job(then, article, "SUCCESS", 1)
    other = connect(at=NOW)
    now.execute("SET lock_timeout = '2s'")
    with other.transaction():
        request_store.accept(other, ask(1), None, "hash-1", False)
        other.execute("SELECT FROM news.ai_job FOR UPDATE")
        other.execute("SELECT FROM news.ai_result FOR UPDATE")
        assert purge(now) == {"context_requests": 1}
    assert column(now, "SELECT context_id FROM granary.context_request") == [1]


def test_a_part_that_fails_keeps_what_it_did_and_does_not_stop_the_others(now: Connection) -> None:
    def half() -> Iterator[int]:
        yield 3
        raise psycopg.OperationalError("a row with somebody's text")

    def endless() -> Iterator[int]:
        while True:
            yield 1

    done = purge_all([Part("half", half), Part("whole", lambda: iter([2, 2]))])
    assert done == [Purged("half", 3, error="OperationalError"), Purged("whole", 4)]
    assert purge_all([Part("endless", endless)], seconds_a_part=0) == [Purged("endless", 1, left=True)]
