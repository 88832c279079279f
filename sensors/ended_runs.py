"""How runs came to their end, and which have ended badly: what the alarms of failed runs are decided from."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import dagster as dg
from dagster._core.events import RunFailureReason
from dagster._core.execution.plan.objects import ErrorSource
from dagster._core.execution.retries import auto_reexecution_should_retry_run
from dagster._core.storage.tags import BACKFILL_ID_TAG, RUN_FAILURE_REASON_TAG, WILL_RETRY_TAG
from dagster._utils.tags import get_boolean_tag_value

MOST_RUNS = 200
_RUNS_OF_ASSETS = "__ASSET_JOB"
_MOST_NAMED = 5
_LONGEST_SELECTION = 200
_SEEN_AGAIN = timedelta(minutes=2)
_LONGEST_ABSENCE = timedelta(days=7)


def run_cause(run: dg.DagsterRun) -> str:
    """The cause of the run's alarm: its job, and its assets where it was not started as one of our jobs."""
    names = _asset_names(run)
    if not run.job_name.startswith(_RUNS_OF_ASSETS) or not names:
        return f"run:{run.job_name}"
    named = ",".join(names)
    if len(named) > _LONGEST_SELECTION:
        named = f"{named[:_LONGEST_SELECTION]}…{hashlib.sha256(named.encode()).hexdigest()[:12]}"
    return f"run:{run.job_name}:{named}"


def has_recovered(instance: dg.DagsterInstance, cause: str, since: datetime) -> bool:
    """Whether the last run of the cause that has ended well or failed after that moment ended well.

    Of assets that were started by hand: a good run of all of them, maybe with others, counts too.
    """
    job, _, named = cause.removeprefix("run:").partition(":")
    ended = dg.RunsFilter(
        job_name=job,
        statuses=[dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE],
        updated_after=since.astimezone(UTC),
    )
    newest_first = instance.get_run_records(
        ended, limit=MOST_RUNS if named else 1, order_by="update_timestamp", ascending=False
    )
    for record in newest_first:
        run = record.dagster_run
        is_same = run_cause(run) == cause or not named
        if run.status is dg.DagsterRunStatus.SUCCESS:
            if is_same or set(named.split(",")) <= set(_asset_names(run)):
                return True
        elif is_same:
            return False
    return False


class EndedBadly(NamedTuple):
    """Runs that failed or were canceled, oldest first, and after which moment (UTC) to look the next time."""

    runs: list[tuple[dg.DagsterRun, datetime]]
    next_after: datetime


def ended_badly(instance: dg.DagsterInstance, after: datetime | None, now: datetime) -> EndedBadly:
    """Those after the moment, a bounded number and none of over a week ago. `now` is this machine's clock.

    What ended in the last minutes is handed out again: it may be recorded later than it ended.
    """
    first = now - _SEEN_AGAIN if after is None or after > now else max(after, now - _LONGEST_ABSENCE)
    ended = dg.RunsFilter(
        statuses=[dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED],
        updated_after=first.astimezone(UTC),
    )
    found = instance.get_run_records(ended, limit=MOST_RUNS, order_by="update_timestamp", ascending=True)
    runs = [(record.dagster_run, _ended_at(record)) for record in found]
    if len(found) < MOST_RUNS:
        return EndedBadly(runs, now - _SEEN_AGAIN)
    return EndedBadly(runs, _aware(found[-1].update_timestamp))


def _ended_at(record: dg.RunRecord) -> datetime:
    if record.end_time is None:
        return _aware(record.update_timestamp)
    return datetime.fromtimestamp(record.end_time, UTC)


def will_be_retried(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether Dagster launches the failed run again, decided as its daemon does.

    The tag is written just after the event that one hears of, and not at all by a process that dies between.
    """
    tag = run.tags.get(WILL_RETRY_TAG)
    if tag is not None:
        expected = get_boolean_tag_value(tag, default_value=False)
    elif not instance.run_retries_enabled:
        return False
    else:
        reason = run.tags.get(RUN_FAILURE_REASON_TAG)
        expected = auto_reexecution_should_retry_run(
            instance, run, RunFailureReason(reason) if reason else None
        )
    from dagster._core.execution.backfill import BULK_ACTION_TERMINAL_STATUSES

    backfill_id = run.tags.get(BACKFILL_ID_TAG)
    if not expected or backfill_id is None:
        return bool(expected)
    backfill = instance.get_backfill(backfill_id)  # the retries of one that has ended are not launched
    return backfill is not None and backfill.status not in BULK_ACTION_TERMINAL_STATUSES


def canceled_for(instance: dg.DagsterInstance, run_id: str) -> str | None:
    """`length` where Dagster ended the run for its maximum run time, `person` where somebody canceled it.

    Dagster says so where it begins to cancel; the end may be told as a cancel, as a failure for another
    reason, and with a failed step that was merely interrupted.
    """
    records = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.RUN_CANCELING).records
    events = [record.event_log_entry.dagster_event for record in records]
    if any(event is not None and "maximum runtime" in (event.message or "") for event in events):
        return "length"
    return "person" if events else None


def failed_step(instance: dg.DagsterInstance, run_id: str) -> tuple[str, str] | None:
    """The first step that failed by itself, and its error in one line; None: the run ended otherwise.

    The line is the error's class, or what a Failure of ours says; any other message may quote a text.
    """
    records = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records
    for event in filter(None, (record.event_log_entry.dagster_event for record in records)):
        failed = event.step_failure_data
        if failed.error_source is ErrorSource.INTERRUPT:
            continue
        if failed.user_failure_data is not None and failed.user_failure_data.description:
            return str(event.step_key), " ".join(failed.user_failure_data.description.split())[:500]
        error = failed.error.cause or failed.error if failed.error else None
        return str(event.step_key), (error.cls_name if error else None) or "an error without a name"
    return None


def what_it_made(run: dg.DagsterRun) -> str:
    """The run's partition or range, and its assets where it was not started as one of our jobs."""
    tags = run.tags
    first, last = (
        tags.get(f"dagster/asset_partition_range_{end}", tags.get("dagster/partition"))
        for end in ("start", "end")
    )
    said = [f"{first} to {last}" if first != last else str(first)] if first else []
    if run.job_name.startswith(_RUNS_OF_ASSETS):
        names = _asset_names(run)
        said += [", ".join(names[:_MOST_NAMED]) + (" …" if len(names) > _MOST_NAMED else "")]
    return "; ".join(said)


def _asset_names(run: dg.DagsterRun) -> list[str]:
    assets = sorted(asset.to_user_string() for asset in run.asset_selection or ())
    return assets or sorted(check.to_user_string() for check in run.asset_check_selection or ())


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
