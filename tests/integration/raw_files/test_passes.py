"""What the daily and the supplementary tick start, and what becomes of a look that fails."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import dagster as dg
import psycopg
import pytest

from orchestration.policies import LOCK_TAG, MAX_RETRIES_TAG
from resources.errors import ServiceError
from tests.integration.raw_files.faulty_bucket import Fault, FaultyBucket, faulty_bucket
from tests.integration.raw_files.raw_runs import DAY, RawRuns, Store, document, raw_path
from tests.integration.raw_files.ticks import (
    MIDNIGHT,
    NOON,
    Connect,
    Ticks,
    alarms,
    failure_log,
    key,
    lock,
)

ONE_DAY = timedelta(days=1)
TODAY = DAY + ONE_DAY
MINUTES = {n: timedelta(minutes=n) for n in (1, 5, 10, 11, 15, 20, 35, 45)}


@pytest.fixture
def proxy(store: Store) -> Iterator[FaultyBucket]:
    """In front of the test's bucket."""
    with faulty_bucket(store.url) as served:
        yield served


@pytest.fixture
def shaky(instance: dg.DagsterInstance, database_url: str, store: Store, proxy: FaultyBucket) -> Ticks:
    """Ticks whose bucket may fail."""
    return Ticks(instance, database_url, store, proxy.url)


def passes(connection: psycopg.Connection) -> list[tuple[str, date, bool]]:
    """Kind and day of each pass, and whether its look succeeded."""
    rows = connection.execute("SELECT kind, day, scanned_at IS NOT NULL FROM raw.pass ORDER BY scheduled_at")
    return rows.fetchall()


def due(connection: psycopg.Connection) -> datetime | None:
    """When the only pass is looked for again."""
    (row,) = connection.execute("SELECT due_at FROM raw.pass").fetchall()
    return None if row[0] is None else row[0].astimezone(UTC)


def test_the_daily_tick_starts_every_partition_with_new_files_once(ticks: Ticks, store: Store) -> None:
    for number in (1, 2):
        store.put(raw_path(number), document("gaon-market.test"))
    store.put(raw_path(1, "us/shop", DAY - 7 * ONE_DAY), document("copper-kettle.test"))
    store.put(raw_path(1, "de/news", DAY - 8 * ONE_DAY), document("too-old.test"))
    store.put(raw_path(1, "jp/news", TODAY), document("too-new.test"))

    requests = ticks.schedule("daily_raw_files", MIDNIGHT)

    assert not isinstance(requests, str)
    wanted = [("kr/news", DAY), ("us/shop", DAY - 7 * ONE_DAY)]
    assert [request.partition_key for request in requests] == [key(*one) for one in wanted]
    assert [request.tags[LOCK_TAG] for request in requests] == [lock(*one) for one in wanted]
    assert {request.tags[MAX_RETRIES_TAG] for request in requests} == {"0"}
    assert [request.run_key for request in requests] == [
        f"daily:2026-11-30T00:00:00+00:00:{key(*one)}" for one in wanted
    ]
    assert ticks.sources() == ["kr/news", "us/shop"]


def test_a_tick_that_is_told_again_has_no_second_effect(
    ticks: Ticks, store: Store, connection: psycopg.Connection
) -> None:
    store.put(raw_path(1), document("gaon-market.test"))
    ticks.daily()
    before = connection.execute("SELECT * FROM raw.partition, raw.pass").fetchall()

    assert ticks.schedule("daily_raw_files", MIDNIGHT, MIDNIGHT + MINUTES[5]) == (
        "this tick has had its look at the bucket"
    )
    assert connection.execute("SELECT * FROM raw.partition, raw.pass").fetchall() == before


def test_runs_that_a_broken_off_tick_did_not_get_to_start_are_asked_for_ten_minutes_later(
    ticks: Ticks, store: Store
) -> None:
    store.put(raw_path(1), document("gaon-market.test"))
    ticks.daily()  # the daemon ends before any run was made

    assert ticks.retry(MIDNIGHT + MINUTES[5]) == []
    assert ticks.retry(MIDNIGHT + MINUTES[10]) == [key()]


def test_a_tick_that_is_evaluated_hours_late_looks_for_the_day_of_its_time(
    ticks: Ticks, store: Store, connection: psycopg.Connection
) -> None:
    store.put(raw_path(1), document("gaon-market.test"))
    store.put(raw_path(1, "kr/news", TODAY), document("hanbit-news.test"))

    assert ticks.daily(MIDNIGHT, at=MIDNIGHT + timedelta(hours=30)) == [key()]
    assert passes(connection) == [("daily", DAY, True)]


def test_what_a_missed_tick_would_have_started_the_next_one_starts(ticks: Ticks, store: Store) -> None:
    store.put(raw_path(1), document("gaon-market.test"))
    store.put(raw_path(1, "kr/news", TODAY), document("hanbit-news.test"))

    assert ticks.daily(MIDNIGHT + ONE_DAY) == [key(day=TODAY), key()]


def test_the_supplementary_tick_skips_where_nothing_is_unprocessed(
    ticks: Ticks, runs: RawRuns, connection: psycopg.Connection
) -> None:
    runs.store.put(raw_path(1), document("gaon-market.test"))
    assert runs.run().success

    assert ticks.schedule("supplementary_raw_files", NOON) == "nothing is unprocessed in 1 partitions"
    assert passes(connection) == [("supplementary", DAY, True)]


def test_the_supplementary_tick_starts_a_late_upload(ticks: Ticks, runs: RawRuns) -> None:
    runs.store.put(raw_path(1), document("gaon-market.test"))
    assert ticks.daily() == [key()]
    assert runs.run().success
    runs.store.put(raw_path(1, "kr/sports"), document("nuri-sports.test"))

    assert ticks.supplementary() == [key("kr/sports")]


def test_a_bad_file_is_tried_again_on_the_next_pass(ticks: Ticks, runs: RawRuns) -> None:
    runs.store.put(raw_path(1), b"[")
    runs.store.put(raw_path(2), document("gaon-market.test"))
    assert ticks.daily() == [key()]
    assert runs.run().success

    assert ticks.supplementary() == [key()]


def test_a_replaced_file_is_processed_again(ticks: Ticks, runs: RawRuns) -> None:
    runs.store.put(raw_path(1), document("gaon-market.test"))
    assert runs.run().success
    runs.store.put(raw_path(1), document("hanbit-news.test"))

    assert ticks.daily() == [key()]


def test_what_the_old_system_finished_starts_nothing(
    ticks: Ticks, store: Store, connection: psycopg.Connection
) -> None:
    store.put(raw_path(1), document("gaon-market.test"))
    store.put(f"{raw_path(1)}.success")

    assert ticks.daily() == []
    assert connection.execute("SELECT count(*) FROM raw.partition").fetchone() == (0,)


def test_a_partition_that_lacks_only_a_marker_is_started(
    ticks: Ticks, runs: RawRuns, connection: psycopg.Connection
) -> None:
    runs.store.put(raw_path(1), document("gaon-market.test"))
    assert runs.run().success
    runs.store.client.delete_object(Bucket=runs.store.name, Key=f"{raw_path(1)}.success")
    connection.execute("UPDATE raw.file SET marked_etag = NULL")  # as after a kill before the marker

    assert ticks.daily() == [key()]


def test_a_look_that_fails_is_repeated_after_5_10_and_20_minutes_and_then_there_is_an_alarm(
    shaky: Ticks, proxy: FaultyBucket, connection: psycopg.Connection
) -> None:
    proxy.fail_next(100, Fault.SLOW_DOWN)

    with pytest.raises(ServiceError):
        shaky.daily()
    assert due(connection) == MIDNIGHT + MINUTES[5]
    for now, then in [(5, 15), (15, 35)]:
        assert shaky.retry(MIDNIGHT + MINUTES[now] - timedelta(seconds=1)) == []
        assert due(connection) == MIDNIGHT + MINUTES[now]
        assert shaky.retry(MIDNIGHT + MINUTES[now]) == []
        assert due(connection) == MIDNIGHT + MINUTES[then]
    assert failure_log(connection) == [("SCAN", None)] * 3
    assert alarms(connection) == {}

    shaky.retry(MIDNIGHT + MINUTES[35])
    assert due(connection) is None
    assert failure_log(connection) == [("SCAN", None)] * 4
    assert alarms(connection) == {"raw_files:scan": True}
    asked = len(proxy.requests)
    shaky.retry(MIDNIGHT + MINUTES[45])
    assert len(proxy.requests) == asked


def test_a_repeated_look_that_succeeds_starts_at_once_what_it_found(
    shaky: Ticks, proxy: FaultyBucket, store: Store, connection: psycopg.Connection
) -> None:
    store.put(raw_path(1), document("gaon-market.test"))
    store.put(raw_path(1, "us/shop"), document("copper-kettle.test"))
    proxy.fail_next(1, Fault.SLOW_DOWN)
    with pytest.raises(ServiceError):
        shaky.daily()

    requests = shaky.sensor("raw_files_retry", MIDNIGHT + MINUTES[5])

    assert not isinstance(requests, str)
    assert [request.run_key for request in requests] == [
        f"daily:2026-11-30T00:00:00+00:00:{key(source)}" for source in ("us/shop", "kr/news")
    ]
    assert shaky.sources() == ["kr/news", "us/shop"]
    assert passes(connection) == [("daily", DAY, True)]
    assert shaky.retry(MIDNIGHT + MINUTES[10]) == []


def test_two_passes_that_are_repeated_at_once_start_a_partition_once(
    shaky: Ticks, proxy: FaultyBucket, store: Store
) -> None:
    store.put(raw_path(1), document("gaon-market.test"))
    proxy.fail_next(2, Fault.SLOW_DOWN)
    for name, at in (("daily_raw_files", MIDNIGHT), ("supplementary_raw_files", NOON)):
        with pytest.raises(ServiceError):
            shaky.schedule(name, at)

    assert shaky.retry(NOON + MINUTES[5]) == [key()]


def test_a_look_that_succeeds_ends_the_alarm_of_an_earlier_one(
    shaky: Ticks, proxy: FaultyBucket, connection: psycopg.Connection
) -> None:
    proxy.fail_next(1, Fault.UNKNOWN_KEY)
    with pytest.raises(ServiceError):
        shaky.daily()
    assert alarms(connection) == {"raw_files:scan": True}

    shaky.supplementary()

    assert alarms(connection) == {"raw_files:scan": False}


def test_a_refused_credential_is_told_at_once_and_not_tried_again(
    shaky: Ticks, proxy: FaultyBucket, connection: psycopg.Connection
) -> None:
    proxy.fail_next(100, Fault.WRONG_SECRET)
    with pytest.raises(ServiceError, match="AWS_SECRET_ACCESS_KEY"):
        shaky.daily()

    assert due(connection) is None
    assert failure_log(connection) == [("SCAN", None)]
    assert alarms(connection) == {"raw_files:scan": True}
    asked = len(proxy.requests)
    shaky.retry(MIDNIGHT + MINUTES[45])
    assert len(proxy.requests) == asked


def test_a_look_that_died_without_a_word_is_repeated(
    ticks: Ticks, store: Store, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(raw_path(1), document("gaon-market.test"))
    with monkeypatch.context() as dying:
        dying.setattr("assets.raw_files.passes.scan_days", die)
        with pytest.raises(Killed):
            ticks.daily()
        with pytest.raises(Killed):
            ticks.retry(MIDNIGHT + MINUTES[10])

    assert ticks.retry(MIDNIGHT + MINUTES[15]) == []
    assert ticks.retry(MIDNIGHT + MINUTES[20]) == [key()]


class Killed(BaseException):
    """What no handler of ours catches."""


def die(*_: object) -> None:
    raise Killed


def test_a_key_that_nearly_fits_rings_an_alarm_until_it_is_gone(
    ticks: Ticks, store: Store, connection: psycopg.Connection
) -> None:
    wrong = raw_path(1).replace("country=kr", "country=KR")
    store.put(wrong, document("gaon-market.test"))
    ticks.daily()
    assert alarms(connection) == {"raw_files:near_misses": True}

    store.client.delete_object(Bucket=store.name, Key=wrong)
    ticks.supplementary()

    assert alarms(connection) == {"raw_files:near_misses": False}
