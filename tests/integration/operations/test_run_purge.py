"""Old runs go, and nothing that tells how a partition or a check stands goes with them."""

import os
import random
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import psycopg
import pytest
from dagster._core.execution.plan.state import KnownExecutionState
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.storage.partition_status_cache import AssetPartitionStatus
from psycopg import sql

from local_stack.environment import dagster_url
from local_stack.postgres import EmbeddedPostgres
from operations import retention_store
from operations.retention import Purged, purge_all
from operations.run_purge import dagster_database, purge_logs, purge_runs, run_parts
from resources.errors import ServiceNotConfigured

HOME = """
telemetry: {enabled: false}
storage:
  custom: {module: orchestration.instance_storage, class: GranaryStorage, config: {}}
local_artifact_storage:
  module: dagster.core.storage.root
  class: LocalArtifactStorage
  config: {base_dir: %(files)s}
compute_logs:
  module: dagster.core.storage.local_compute_log_manager
  class: LocalComputeLogManager
  config: {base_dir: %(files)s}
"""
DAYS = ["2026-03-01", "2026-03-02", "2026-03-03"]
by_day = dg.DailyPartitionsDefinition("2026-03-01", end_date="2026-03-04")
by_day_and_section = dg.MultiPartitionsDefinition(
    {"day": by_day, "section": dg.StaticPartitionsDefinition(["A", "B"])}
)
one_run = dg.BackfillPolicy.single_run()


class Ending(dg.Config):
    """How the run ends."""

    fails: bool = False


@dg.asset(partitions_def=by_day, backfill_policy=one_run, code_version="1")
def pages(context: dg.AssetExecutionContext, config: Ending) -> dg.MaterializeResult[Any]:
    context.log.info("a line of the log")
    if config.fails:
        raise dg.Failure("asked for")
    return dg.MaterializeResult(metadata={"rows": 1})


@dg.asset(partitions_def=by_day_and_section, backfill_policy=one_run)
def sections(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
    print("printed by the step")
    return dg.MaterializeResult()


@dg.asset
def totals(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
    context.log_event(dg.AssetObservation("totals", metadata={"seen": 1}))
    return dg.MaterializeResult()


@dg.asset_check(asset=pages)
def pages_are_whole() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=True)


DEFS = dg.Definitions(
    assets=[pages, sections, totals],
    asset_checks=[pages_are_whole],
    jobs=[
        *(dg.define_asset_job(name, selection=[name]) for name in ("pages", "sections", "totals")),
        dg.define_asset_job("pages_unchecked", dg.AssetSelection.assets("pages").without_checks()),
    ],
)
ORIGIN = RemoteJobOrigin(
    RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("granary"), "__repository__"), "pages"
)
CHECK = dg.AssetCheckKey(dg.AssetKey("pages"), "pages_are_whole")


@pytest.fixture
def instance(
    postgres_server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[dg.DagsterInstance]:
    """An instance as in production, with a database of its own."""
    name = f"dagster_{uuid.uuid4().hex[:8]}"
    postgres_server.create_database(name)
    monkeypatch.setenv("DAGSTER_PG_URL", dagster_url(postgres_server.dsn()).rsplit("/", 1)[0] + f"/{name}")
    (tmp_path / "dagster.yaml").write_text(HOME % {"files": tmp_path / "files"})
    with dg.DagsterInstance.from_config(str(tmp_path)) as made:
        yield made
    with psycopg.connect(postgres_server.dsn(), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def database(instance: dg.DagsterInstance) -> Iterator[psycopg.Connection]:
    with dagster_database(instance) as connection:
        yield connection


def run(
    instance: dg.DagsterInstance,
    job: str,
    first: str = "",
    last: str = "",
    fails: bool = False,
    tags: Mapping[str, str] | None = None,
) -> str:
    """The id of a run over these partitions, which has ended."""
    span = {
        "dagster/asset_partition_range_start": first,
        "dagster/asset_partition_range_end": last or first,
    }
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    ops = {"ops": {"pages": {"config": {"fails": fails}}}} if job.startswith("pages") else {}
    return (
        DEFS.resolve_job_def(job)
        .execute_in_process(
            instance=instance,
            tags={**(span if first else {}), **(tags or {})},
            run_config={**quiet, **ops},
            raise_on_error=False,
        )
        .run_id
    )


def purge(instance: dg.DagsterInstance, database: psycopg.Connection, **more: Any) -> int:
    """How many runs went of all that have ended by now."""
    return sum(purge_runs(database, instance, datetime.now(UTC) + timedelta(seconds=1), **more))


def runs_left(instance: dg.DagsterInstance) -> set[str]:
    return {one.run_id for one in instance.get_runs()}


def what_the_ui_shows(instance: dg.DagsterInstance) -> dict[str, Any]:
    """Per asset: which partitions stand how, from which event, with which version; and the checks."""
    shown: dict[str, Any] = {}
    for asset, partitions in ((pages, by_day), (sections, by_day_and_section)):
        key, keys = asset.key, partitions.get_partition_keys()
        storage = instance.event_log_storage
        shown[f"{key} materialised"] = instance.get_materialized_partitions(key)
        shown[f"{key} statuses"] = instance.get_status_by_partition(key, keys, partitions)
        for kind in (dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_OBSERVATION):
            shown[f"{key} {kind}"] = dict(storage.get_latest_storage_id_by_partition(key, kind))
        shown[f"{key} versions"] = dict(
            storage.get_latest_tags_by_partition(
                key, dg.DagsterEventType.ASSET_MATERIALIZATION, ["dagster/data_version"]
            )
        )
    for asset in (pages, sections, totals):
        newest = instance.get_latest_materialization_event(asset.key)
        shown[f"{asset.key} newest"] = newest and newest.run_id
        records = instance.get_asset_records([asset.key])
        shown[f"{asset.key} last run"] = [record.asset_entry.last_run_id for record in records]
    observed = instance.fetch_observations(totals.key, limit=1).records
    shown["observed"] = [one.storage_id for one in observed]
    (summary,) = instance.event_log_storage.get_asset_check_summary_records([CHECK]).values()
    last, completed = summary.last_check_execution_record, summary.last_completed_check_execution_record
    shown["check"] = [one and (one.run_id, one.status) for one in (last, completed)]
    return shown


def test_no_partition_that_was_made_is_missing_after_a_purge_whatever_the_runs_were(
    instance: dg.DagsterInstance, database: psycopg.Connection
) -> None:
    chosen = random.Random(20_261_130)
    for _ in range(16):
        job = chosen.choice(["pages", "pages", "sections", "totals"])
        first, last = sorted(chosen.choices(DAYS, k=2))
        if job == "sections":
            first, last = f"{first}|A", f"{last}|{chosen.choice('AB')}"
        if job == "totals":
            first = last = ""
        run(instance, job, first, last, fails=chosen.random() < 0.3)
    shown, before = what_the_ui_shows(instance), runs_left(instance)
    gone = purge(instance, database, limit=5)
    assert 4 < gone < 14
    assert what_the_ui_shows(instance) == shown
    assert len(runs_left(instance)) == len(before) - gone
    assert purge(instance, database) == 0
    # Also for a UI that starts anew and works its statuses out again.
    database.execute("UPDATE asset_keys SET cached_status_data = NULL")
    assert what_the_ui_shows(instance) == shown


def test_a_run_goes_once_each_of_its_partitions_was_made_again(
    instance: dg.DagsterInstance, database: psycopg.Connection
) -> None:
    whole = run(instance, "sections", "2026-03-01|A", "2026-03-02|B")
    for key in ("2026-03-01|A", "2026-03-01|B", "2026-03-02|A"):
        run(instance, "sections", key)
    assert purge(instance, database) == 0
    run(instance, "sections", "2026-03-02|B")
    assert purge(instance, database) == 1
    assert whole not in runs_left(instance)


def test_the_last_attempt_of_a_partition_that_failed_stays_and_earlier_ones_go(
    instance: dg.DagsterInstance, database: psycopg.Connection
) -> None:
    made, *failed = (run(instance, "pages_unchecked", DAYS[0], fails=fails) for fails in (False, True, True))
    assert purge(instance, database) == 1
    assert runs_left(instance) == {made, failed[1]}
    statuses = instance.get_status_by_partition(pages.key, DAYS, by_day) or {}
    assert [statuses.get(day) for day in DAYS] == [AssetPartitionStatus.FAILED, None, None]


def test_nothing_of_a_purged_run_is_left_anywhere(
    instance: dg.DagsterInstance, database: psycopg.Connection, tmp_path: Path
) -> None:
    old = run(instance, "pages", DAYS[0], tags={"team": "a"})
    (tmp_path / "files" / "storage" / old).mkdir(parents=True)
    (tmp_path / "files" / "storage" / old / "result").write_text("an artifact")
    new = run(instance, "pages", DAYS[0])
    tables = (
        "runs WHERE run_id = %(id)s",
        "run_tags WHERE run_id = %(id)s",
        "event_logs WHERE run_id = %(id)s",
        "asset_check_executions WHERE run_id = %(id)s",
        "asset_event_tags WHERE event_id NOT IN (SELECT id FROM event_logs WHERE run_id <> %(id)s)",
    )
    counted = [f"SELECT count(*) FROM {table}".encode() for table in tables]  # noqa: S608
    assert all(database.execute(query, {"id": old}).fetchone() != (0,) for query in counted)
    assert any(old in path for path, _, _ in os.walk(tmp_path / "files"))
    assert purge(instance, database) == 1
    assert all(database.execute(query, {"id": old}).fetchone() == (0,) for query in counted)
    assert not any(old in path for path, _, _ in os.walk(tmp_path / "files"))
    assert any(new in path for path, _, _ in os.walk(tmp_path / "files"))


def test_a_run_whose_rows_somebody_holds_keeps_its_files_too_and_is_reported(
    instance: dg.DagsterInstance,
    database: psycopg.Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention_store, "LOCK_SECONDS", 0.1)
    old = run(instance, "sections", f"{DAYS[0]}|A")
    run(instance, "sections", f"{DAYS[0]}|A")
    files = sorted((tmp_path / "files").rglob("*"))
    later = datetime.now(UTC) + timedelta(days=1)
    parts = [part for part in run_parts(instance, later, 0, 0) if part.name != "dagster_tick_logs"]
    with database.transaction():
        database.execute("SELECT FROM event_logs WHERE run_id = %s FOR UPDATE", (old,))
        assert [one.error for one in purge_all(parts)] == ["LockNotAvailable"] * 2
        assert sorted((tmp_path / "files").rglob("*")) == files
    assert purge_all(parts)[1] == Purged("dagster_runs", 1)
    assert not list((tmp_path / "files").rglob(f"*{old}*"))


def test_live_runs_and_younger_ones_stay(instance: dg.DagsterInstance, database: psycopg.Connection) -> None:
    for status in dg.DagsterRunStatus:
        instance.add_run(
            dg.DagsterRun("pages", run_id=str(uuid.uuid4()), status=status, remote_job_origin=ORIGIN)
        )
    database.execute("UPDATE runs SET update_timestamp = update_timestamp - interval '90 days'")
    ended = {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED}
    live = {one.run_id for one in instance.get_runs() if one.status not in ended}
    first = run(instance, "totals")
    between = datetime.now(UTC)
    second, third = run(instance, "totals"), run(instance, "totals")
    assert sum(purge_runs(database, instance, between)) == len(ended) + 1
    assert runs_left(instance) == {*live, second, third}
    assert first not in runs_left(instance)


def test_a_run_stays_that_a_later_one_was_tried_again_from(
    instance: dg.DagsterInstance, database: psycopg.Connection
) -> None:
    root = run(instance, "totals")
    again = run(instance, "totals", tags={"dagster/root_run_id": root, "dagster/parent_run_id": root})
    assert purge(instance, database) == 0
    newest = run(instance, "totals")
    assert [purge(instance, database), purge(instance, database)] == [1, 1]  # the later one first
    assert runs_left(instance) == {newest}
    assert again != root


def test_runs_of_a_backfill_that_goes_on_stay(
    instance: dg.DagsterInstance, database: psycopg.Connection
) -> None:
    run(instance, "totals", tags={"dagster/backfill": "going-on"})
    run(instance, "totals", tags={"dagster/backfill": "over"})
    run(instance, "totals")
    for key, status in (("going-on", "REQUESTED"), ("over", "COMPLETED_SUCCESS")):
        database.execute(
            "INSERT INTO bulk_actions (key, status, timestamp) VALUES (%s, %s, now())", (key, status)
        )
    assert purge(instance, database) == 1


def test_log_lines_go_and_how_the_run_ended_stays(
    instance: dg.DagsterInstance, database: psycopg.Connection, tmp_path: Path
) -> None:
    good = run(instance, "pages", DAYS[0])
    bad = run(instance, "pages", DAYS[1], fails=True)
    between = datetime.now(UTC)
    young = run(instance, "sections", f"{DAYS[0]}|A")
    shown = what_the_ui_shows(instance)
    lines = {one: len(instance.all_logs(one)) for one in (good, bad, young)}
    steps = instance.get_run_step_stats(bad)
    gone = sum(purge_logs(database, instance, between, limit=1))
    left = {one: [entry.dagster_event_type for entry in instance.all_logs(one)] for one in lines}
    assert gone == sum(lines.values()) - sum(map(len, left.values())) > 10
    assert len(left[young]) == lines[young]
    kinds = dg.DagsterEventType
    assert {kinds.ASSET_MATERIALIZATION, kinds.ASSET_CHECK_EVALUATION, kinds.RUN_SUCCESS} <= set(left[good])
    assert {kinds.RUN_FAILURE, kinds.STEP_FAILURE} <= set(left[bad]) and None not in left[bad]
    assert instance.get_run_step_stats(bad) == steps
    assert what_the_ui_shows(instance) == shown
    folders = {path.name for path in (tmp_path / "files").iterdir()}
    assert young in folders and not {good, bad} & folders
    assert sum(purge_logs(database, instance, between)) == 0


def test_a_run_that_failed_can_be_tried_again_from_its_failure_after_its_log_lines_went(
    instance: dg.DagsterInstance, database: psycopg.Connection
) -> None:
    bad = run(instance, "pages", DAYS[1], fails=True)
    assert sum(purge_logs(database, instance, datetime.now(UTC) + timedelta(seconds=1))) > 0
    parent = instance.get_run_by_id(bad)
    assert parent is not None
    steps, _ = KnownExecutionState.build_resume_retry_reexecution(instance, parent)
    assert "pages" in steps


def test_a_purge_that_dies_in_a_portion_leaves_that_portion_as_it_was(
    instance: dg.DagsterInstance, database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        run(instance, "totals")
    events = database.execute("SELECT count(*) FROM event_logs").fetchone()
    database.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'the connection is lost'; END $$;"
        " CREATE TRIGGER refuse BEFORE DELETE ON runs EXECUTE FUNCTION refuse()"
    )
    with pytest.raises(psycopg.Error):
        purge(instance, database)
    assert database.execute("SELECT count(*) FROM event_logs").fetchone() == events
    database.execute("DROP TRIGGER refuse ON runs")
    assert purge(instance, database) == 2


def test_the_parts_of_a_day_are_done_in_order_and_counted(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    for _ in range(2):
        run(instance, "totals")
    tick_log = tmp_path / "files" / "__repository__" / "a_sensor" / "tick.err"
    tick_log.parent.mkdir(parents=True)
    tick_log.write_text("said by a sensor")
    soon = datetime.now(UTC) + timedelta(days=20)
    logs, ticks, runs = purge_all(run_parts(instance, soon, run_days=30, log_days=14))
    assert (logs.name, ticks, runs) == (
        "dagster_logs",
        Purged("dagster_tick_logs", 1),
        Purged("dagster_runs", 0),
    )
    assert logs.rows > 10 and logs.error is None
    later = soon + timedelta(days=20)
    assert purge_all(run_parts(instance, later, run_days=30, log_days=14))[-1] == Purged("dagster_runs", 1)


def test_an_instance_in_memory_has_nothing_to_purge_and_one_elsewhere_says_so(tmp_path: Path) -> None:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        assert run_parts(ephemeral, datetime.now(UTC), 30, 14) == []
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}")
    with dg.DagsterInstance.from_config(str(tmp_path)) as sqlite:
        with pytest.raises(ServiceNotConfigured), dagster_database(sqlite):
            pass
        purged = purge_all(run_parts(sqlite, datetime.now(UTC), 30, 14))
    assert [one.error is None for one in purged] == [False, True, False]
