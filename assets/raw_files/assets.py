"""The assets of raw_files in the order of the data flow. Partitions: day (UTC) × source (as `kr/news`)."""

import json
import time
from datetime import timedelta

import dagster as dg
import psycopg
from pydantic import Field

from assets.raw_files import (
    alarm_messages,
    attempts,
    checks,
    daily_report,
    front_page_store,
    partition_store,
    scan,
    store,
)
from assets.raw_files.partition_store import Failure
from assets.raw_files.rules import RawFilesRules
from assets.raw_files.schedule_state import running_since
from assets.raw_files.store import Partition
from orchestration.failures import failures_by_owner
from orchestration.partitions import day_by_source, raw_days, read_raw_key
from orchestration.policies import FRONT_PAGES_SLICE_SECONDS, RAW_FILES_MAX_SECONDS
from resources.alerts import AlertResource
from resources.bucket import BucketResource
from resources.guarded_fetch import GuardedFetchResource
from resources.postgres import PostgresResource

GROUP = "raw_files"
OWNERS = ["team:content"]
NO_FILE_COULD_BE_READ = "none of the partition's files could be read; raw.file has the reason of each"


class ManifestConfig(dg.Config):
    """How the partition's files are looked at."""

    force: bool = Field(default=False, description="Process every file again, whatever says it is done.")


@dg.asset(
    group_name=GROUP, owners=OWNERS, kinds={"s3", "postgres"}, partitions_def=day_by_source, code_version="1"
)
def raw_file_manifest(
    context: dg.AssetExecutionContext,
    config: ManifestConfig,
    postgres: PostgresResource,
    bucket: BucketResource,
) -> dg.MaterializeResult:
    """The partition's files and which of them are not processed (raw.file), by one listing."""
    started = time.monotonic()
    partition = read_raw_key(context.partition_key)
    with failures_by_owner(context), postgres.connect() as connection, bucket.open() as opened:
        _start(connection, partition, context.run_id)
        found = scan.scan_partition(connection, opened, partition)
        if config.force:
            store.forget_processing(connection, [one.key for one in found.files.get(partition, [])])
        request = context.run.tags.get(partition_store.REQUEST_TAG)
        if request:  # not before: a run that cannot list leaves it waiting, or its `force` were lost
            partition_store.request_started(connection, int(request), context.run_id)
        counts = store.file_counts(connection, partition)
    if not found.files:
        context.log.warning(
            "the bucket has no file of this partition: see that day, country and category are right"
        )
    for key in found.near_misses:
        context.log.warning(f"a key that nearly fits is ignored: {key!r}")
    return dg.MaterializeResult(
        metadata={
            "items_done": counts.processed + counts.finished_by_others,
            "items_waiting": counts.pending,
            "items_failed": counts.failed,
            "seconds": round(time.monotonic() - started, 3),
            "files": counts.files,
            "finished_by_others": counts.finished_by_others,
            "keys_ignored": found.ignored,
            "near_misses": len(found.near_misses),
        }
    )


@dg.asset(
    group_name=GROUP,
    owners=OWNERS,
    kinds={"s3", "postgres"},
    partitions_def=day_by_source,
    code_version="1",
    deps=[raw_file_manifest],
    check_specs=[checks.READABLE],
)
def raw_domains(
    context: dg.AssetExecutionContext,
    postgres: PostgresResource,
    bucket: BucketResource,
    alerts: AlertResource,
    raw_files_rules: RawFilesRules,
) -> dg.MaterializeResult:
    """The domains that the partition's files name (raw.domain, raw.domain_sighting), and `.success` markers.

    Fails where not one file could be read; a single bad file fails alone and is tried on the next pass.
    """
    from assets.raw_files.file_processing import process_files  # the parser is slow to import

    started = time.monotonic()
    partition = read_raw_key(context.partition_key)
    with failures_by_owner(context), postgres.connect() as connection, bucket.open() as opened:
        _start(connection, partition, context.run_id)
        outcome = process_files(connection, opened, partition, context.run_id, context.log.info)
        counts = store.file_counts(connection, partition)
        failed = store.failed_files(connection, partition)
        check = checks.readable(failed)
        nothing_read = counts.failed > 0 and not counts.processed + counts.finished_by_others
        error = f"{NO_FILE_COULD_BE_READ}, the first: {failed[0][1]}" if failed else ""
        if outcome.left:  # a rerun from failure ends here for ever: it does not list again
            error += f"; {outcome.left} were replaced since they were listed: run raw_file_manifest too"
        if nothing_read:
            failure = Failure(
                type="RawDocumentUnreadable",
                kind="PARTITION",
                error=error,
                environment=raw_files_rules.environment,
                partition=context.partition_key,
                run_id=context.run_id,
            )
            attempts.fail(connection, alerts, partition, context.run_id, failure)
        elif not partition_store.finish_partition(connection, partition, context.run_id):
            context.log.warning("another run has taken this partition over; it says how the attempt ended")
    if nothing_read:
        context.log_event(_evaluation(context, check))
        raise dg.Failure(description=error, allow_retries=False)
    return dg.MaterializeResult(
        metadata={
            "items_done": counts.processed + counts.finished_by_others,
            "items_waiting": counts.pending,
            "items_failed": counts.failed,
            "seconds": round(time.monotonic() - started, 3),
            "sightings": counts.rows,
            "items_without_domain": counts.rejected,
            "pass_files_processed": outcome.processed,
            "pass_files_failed": outcome.failed,
            "pass_files_left": outcome.left,
        },
        check_results=[check],
    )


@dg.asset(
    group_name=GROUP,
    owners=OWNERS,
    kinds={"html", "postgres"},
    partitions_def=day_by_source,
    code_version="1",
    deps=[raw_domains],
)
def domain_metadata(
    context: dg.AssetExecutionContext,
    postgres: PostgresResource,
    sites: GuardedFetchResource,
    raw_files_rules: RawFilesRules,
) -> dg.MaterializeResult:
    """Front pages of the domains that are new in this partition (raw.front_page); an error is a row too."""
    from assets.raw_files.front_page_fetching import CLAIMED_AT_ONCE, LEASE_SECONDS, collect

    started = time.monotonic()
    partition = read_raw_key(context.partition_key)
    with failures_by_owner(context), postgres.connect() as connection, sites.open() as fetcher:
        if raw_files_rules.fetch_metadata:
            collect(
                connection,
                fetcher,
                lambda: front_page_store.claim_of_partition(
                    connection, partition, context.run_id, LEASE_SECONDS, CLAIMED_AT_ONCE
                ),
                context.run_id,
                FRONT_PAGES_SLICE_SECONDS,
            )
        counts = front_page_store.counts_of_partition(connection, partition)
    return dg.MaterializeResult(
        metadata={
            "items_done": counts.fetched,
            "items_waiting": counts.waiting,
            "items_failed": counts.failed,
            "seconds": round(time.monotonic() - started, 3),
            "domains": counts.domains,
        }
    )


@dg.asset(group_name=GROUP, owners=OWNERS, kinds={"html", "postgres"}, code_version="1", deps=[raw_domains])
def domain_metadata_refresh(
    context: dg.AssetExecutionContext,
    postgres: PostgresResource,
    sites: GuardedFetchResource,
    raw_files_rules: RawFilesRules,
) -> dg.MaterializeResult:
    """Front pages older than METADATA_TTL_DAYS again, oldest first, and what failed or was left over."""
    from assets.raw_files.front_page_fetching import CLAIMED_AT_ONCE, LEASE_SECONDS, collect

    if not raw_files_rules.fetch_metadata:
        raise dg.Failure(description="fetching is switched off (FETCH_METADATA)", allow_retries=False)
    started = time.monotonic()
    with failures_by_owner(context), postgres.connect() as connection, sites.open() as fetcher:
        collected = collect(
            connection,
            fetcher,
            lambda: front_page_store.claim_oldest(
                connection,
                context.run_id,
                LEASE_SECONDS,
                raw_files_rules.metadata_ttl_days,
                CLAIMED_AT_ONCE,
            ),
            context.run_id,
            FRONT_PAGES_SLICE_SECONDS,
        )
    return dg.MaterializeResult(
        metadata={
            "pass_fetched": collected.fetched,
            "pass_failed": collected.failed,
            "leases_lost": collected.leases_lost,
            "seconds": round(time.monotonic() - started, 3),
        }
    )


@dg.asset(
    group_name=GROUP,
    owners=OWNERS,
    kinds={"s3", "postgres"},
    partitions_def=raw_days,
    code_version="1",
    # The report tells how all sources of the day stand; which of them ran is not its condition.
    deps=[dg.AssetDep(raw_domains, partition_mapping=dg.MultiToSingleDimensionPartitionMapping("day"))],
    check_specs=checks.ALARMS,
)
def daily_raw_report(
    context: dg.AssetExecutionContext,
    postgres: PostgresResource,
    bucket: BucketResource,
    alerts: AlertResource,
    raw_files_rules: RawFilesRules,
) -> dg.MaterializeResult:
    """The day's summary (raw.daily_report, `reports/date=…/summary.json`), and the five alarms."""
    window = raw_days.time_window_for_partition_key(context.partition_key)
    day = window.start.date()
    with failures_by_owner(context), postgres.connect() as connection:
        as_of = partition_store.now(connection)
        facts = partition_store.partition_facts(connection, day - timedelta(days=2), day)
        passes = partition_store.pass_facts(connection, window.start)
        summary = daily_report.daily_summary(day, passes, facts, as_of, raw_files_rules.catch_up_days)
        standing = alarm_messages.standing_on(connection, day, facts, running_since(context.instance))
        alarm_messages.tell(connection, alerts, standing)
        with bucket.open() as opened:
            body = json.dumps(summary, indent=2).encode()
            opened.put(f"reports/date={day.isoformat()}/summary.json", body, "application/json")
        # Last, since the row says that the report is up to date.
        partition_store.write_report(connection, day, as_of, summary)
    numbers = summary["daily_processing_summary"]
    return dg.MaterializeResult(
        metadata={
            "summary": dg.MetadataValue.md(daily_report.as_markdown(summary)),
            "partitions_with_new_files": numbers["partitions_with_new_files"],
            "partitions_failed": numbers["partitions_failed"],
            "total_new_files": numbers["total_new_files"],
            "total_files_processed": numbers["total_files_processed"],
        },
        check_results=checks.alarms(standing),
    )


def _start(connection: psycopg.Connection, partition: Partition, run_id: str) -> None:
    partition_store.start_partition(connection, partition, run_id, RAW_FILES_MAX_SECONDS + 60)


def _evaluation(context: dg.AssetExecutionContext, check: dg.AssetCheckResult) -> dg.AssetCheckEvaluation:
    """A failing step logs no check result by itself."""
    assert check.check_name is not None
    return dg.AssetCheckEvaluation(
        asset_key=context.asset_key,
        check_name=check.check_name,
        passed=bool(check.passed),
        metadata=check.metadata,
        severity=check.severity,
    )
