"""A partition's run: what is processed, once, what fails alone, and what is said in the bucket."""

import hashlib
import json

import psycopg

from tests.integration.raw_files.raw_runs import DAY, RawRuns, document, raw_path


def domains(connection: psycopg.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT domain FROM raw.domain ORDER BY domain")]


def sightings(connection: psycopg.Connection) -> list[tuple[str, str]]:
    return connection.execute(
        "SELECT key, domain FROM raw.domain_sighting JOIN raw.domain ON domain.id = domain_id ORDER BY 1, 2"
    ).fetchall()


def statuses(connection: psycopg.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT key, status FROM raw.file").fetchall())


def test_a_partitions_files_become_domains_with_front_pages(
    runs: RawRuns, connection: psycopg.Connection
) -> None:
    runs.store.put(raw_path(1), document("https://www.hanbit-news.test/a", "gaon-market.test", "10.0.0.1"))
    runs.store.put(raw_path(2), b'["gaon-market.test", {"url": "https://unknown-host.example"}]')

    result = runs.run()

    assert result.success
    assert domains(connection) == ["gaon-market.test", "hanbit-news.test", "unknown-host.example"]
    assert len(sightings(connection)) == 4
    assert runs.metadata(result, "raw_domains")["items_without_domain"] == 1
    found = runs.metadata(result, "domain_metadata")
    assert (found["items_done"], found["items_failed"], found["items_waiting"]) == (2, 1, 0)
    rows = connection.execute("SELECT title FROM raw.front_page WHERE status = 'FETCHED' ORDER BY title")
    titles = [title for (title,) in rows]
    assert "가온장터" in titles[0] and "한빛일보" in titles[1]


def test_a_second_run_changes_nothing_and_fetches_nothing(
    runs: RawRuns, connection: psycopg.Connection
) -> None:
    runs.store.put(raw_path(1), document("gaon-market.test"))
    runs.run()
    before = connection.execute("SELECT processed_at, attempts FROM raw.file").fetchall()
    fetched = connection.execute("SELECT fetched_at FROM raw.front_page").fetchall()

    result = runs.run()

    assert result.success
    assert connection.execute("SELECT processed_at, attempts FROM raw.file").fetchall() == before
    assert connection.execute("SELECT fetched_at FROM raw.front_page").fetchall() == fetched
    assert runs.metadata(result, "raw_domains")["pass_files_processed"] == 0


def test_a_marker_tells_others_what_was_done(runs: RawRuns, connection: psycopg.Connection) -> None:
    body = document("gaon-market.test", "hanbit-news.test")
    runs.store.put(raw_path(1), body)

    result = runs.run()

    said = json.loads(runs.store.read(f"{raw_path(1)}.success"))
    assert said["run_id"] == result.run_id
    assert said["rows"] == 2
    assert said["sha256"] == hashlib.sha256(body).hexdigest()
    assert said["finished_at"].startswith("20")


def test_a_bad_file_fails_alone_with_its_reason(runs: RawRuns, connection: psycopg.Connection) -> None:
    runs.store.put(raw_path(1), b"")
    runs.store.put(raw_path(2), b'["gaon-market.test", "hanbit-news.test"')
    runs.store.put(raw_path(3), document("hanbit-news.test"))

    result = runs.run()

    assert result.success
    assert runs.checks(result)["files_readable"] is False
    assert statuses(connection) == {
        raw_path(1): "FAILED",
        raw_path(2): "FAILED",
        raw_path(3): "PROCESSED",
    }
    assert domains(connection) == ["hanbit-news.test"]
    assert runs.store.keys("raw/") == [raw_path(1), raw_path(2), raw_path(3), f"{raw_path(3)}.success"]
    reasons: dict[str, str] = dict(
        connection.execute("SELECT key, reason FROM raw.file WHERE status = 'FAILED'").fetchall()
    )
    assert "empty" in reasons[raw_path(1)]
    assert "JSON" in reasons[raw_path(2)]


def test_a_failed_file_that_was_mended_is_processed(runs: RawRuns, connection: psycopg.Connection) -> None:
    runs.store.put(raw_path(1), b"{")
    assert not runs.run().success
    runs.store.put(raw_path(1), document("gaon-market.test"))

    assert runs.run().success

    assert statuses(connection) == {raw_path(1): "PROCESSED"}


def test_a_rerun_from_failure_says_that_a_mended_file_wants_to_be_listed(
    runs: RawRuns, connection: psycopg.Connection
) -> None:
    runs.store.put(raw_path(1), b"{")
    assert not runs.run().success
    runs.store.put(raw_path(1), document("gaon-market.test"))

    result = runs.run(assets=["raw_domains"])

    assert not result.success
    (error,) = connection.execute("SELECT error FROM raw.partition").fetchone() or ("",)
    assert error.endswith("1 were replaced since they were listed: run raw_file_manifest too")


def test_a_partition_without_one_readable_file_has_failed(
    runs: RawRuns, connection: psycopg.Connection
) -> None:
    runs.store.put(raw_path(1), b"{")

    result = runs.run()

    assert not result.success
    assert runs.checks(result)["files_readable"] is False
    status, failures, error = connection.execute(
        "SELECT status, failures, error FROM raw.partition"
    ).fetchone() or ("", 0, "")
    assert (status, failures) == ("FAILED", 1)
    assert "none of the partition's files" in error
    kinds = connection.execute("SELECT kind, environment, partition, run_id FROM raw.failure_log").fetchall()
    assert kinds == [("PARTITION", "tests", f"{DAY}|kr/news", result.run_id)]


def test_a_replaced_files_sightings_are_replaced(runs: RawRuns, connection: psycopg.Connection) -> None:
    runs.store.put(raw_path(1), document("gaon-market.test", "hanbit-news.test"))
    runs.store.put(raw_path(2), document("gaon-market.test"))
    runs.run()
    runs.store.put(raw_path(1), document("hanbit-news.test", "paper-lantern.test"))

    runs.run()

    assert sightings(connection) == [
        (raw_path(1), "hanbit-news.test"),
        (raw_path(1), "paper-lantern.test"),
        (raw_path(2), "gaon-market.test"),
    ]
    assert json.loads(runs.store.read(f"{raw_path(1)}.success"))["rows"] == 2


def test_a_replaced_file_that_cannot_be_read_keeps_what_it_had(
    runs: RawRuns, connection: psycopg.Connection
) -> None:
    runs.store.put(raw_path(1), document("gaon-market.test"))
    runs.store.put(raw_path(2), document("gaon-market.test"))
    runs.run()
    runs.store.put(raw_path(1), b"[1, 2")

    runs.run()

    assert (raw_path(1), "gaon-market.test") in sightings(connection)
    assert statuses(connection)[raw_path(1)] == "FAILED"


def test_what_the_old_system_finished_stays_finished(runs: RawRuns, connection: psycopg.Connection) -> None:
    runs.store.put(raw_path(1), document("gaon-market.test"))
    runs.store.put(f"{raw_path(1)}.success", b"done")
    runs.store.put(raw_path(2), document("hanbit-news.test"))

    result = runs.run()

    assert result.success
    assert domains(connection) == ["hanbit-news.test"]
    assert runs.metadata(result, "raw_file_manifest")["finished_by_others"] == 1
    assert runs.store.read(f"{raw_path(1)}.success") == b"done"


def test_force_processes_what_markers_and_the_ledger_call_done(
    runs: RawRuns, connection: psycopg.Connection
) -> None:
    runs.store.put(raw_path(1), document("gaon-market.test"))
    runs.store.put(f"{raw_path(1)}.success", b"done")
    runs.store.put(raw_path(2), document("hanbit-news.test"))
    runs.run()

    result = runs.run(force=True)

    assert runs.metadata(result, "raw_domains")["pass_files_processed"] == 2
    assert domains(connection) == ["gaon-market.test", "hanbit-news.test"]


def test_force_leaves_a_file_that_is_gone_as_it_was(runs: RawRuns, connection: psycopg.Connection) -> None:
    runs.store.put(raw_path(1), document("gaon-market.test"))
    runs.store.put(raw_path(2), document("hanbit-news.test"))
    runs.run()
    runs.store.client.delete_object(Bucket=runs.store.name, Key=raw_path(2))

    result = runs.run(force=True)

    assert runs.metadata(result, "raw_domains")["pass_files_processed"] == 1
    assert statuses(connection) == {raw_path(1): "PROCESSED", raw_path(2): "PROCESSED"}


def test_odd_keys_are_ignored_and_counted(runs: RawRuns) -> None:
    folder = raw_path(1).rsplit("/", 1)[0]
    for name in ("", "raw_1.json", "RAW_0001.json", "원시 자료,=%20.json", "readme.txt"):
        runs.store.put(f"{folder}/{name}", b"[]")
    runs.store.put(raw_path(1), document("gaon-market.test"))

    result = runs.run()

    found = runs.metadata(result, "raw_file_manifest")
    assert (found["files"], found["keys_ignored"], found["near_misses"]) == (1, 5, 3)


def test_two_files_that_name_the_same_domain_twice_store_it_once(
    runs: RawRuns, connection: psycopg.Connection
) -> None:
    first = {"url": "gaon-market.test", "title": "first", "rank": 1}
    again = {"url": "http://gaon-market.test/x", "title": "again", "rank": 2}
    runs.store.put(raw_path(1), json.dumps([first, again]).encode())

    runs.run()

    assert connection.execute("SELECT title, rank FROM raw.domain_sighting").fetchall() == [("first", 1)]
