"""The asset checks of raw_files: one on its files, and each of the five alarms."""

from collections.abc import Sequence

import dagster as dg

from assets.raw_files.alarm_messages import NAMES, Standing
from assets.raw_files.markdown_text import escaped

_WHAT = {
    "no_new_files": "Three days in a row without a new file, over all sources.",
    "failure_rate": "Over 20 % of the day's partitions with new files failed.",
    "partition_failing": "A source that fails on three consecutive dates.",
    "schedule_late": "A scheduled pass that is more than 30 minutes late.",
    "daily_processing_failure": "A partition that spent its retries.",
}

READABLE = dg.AssetCheckSpec(
    "files_readable",
    asset="raw_domains",
    description="Files of the partition that could not be read, with the reason of each.",
)
ALARMS = [dg.AssetCheckSpec(name, asset="daily_raw_report", description=_WHAT[name]) for name in NAMES]


def readable(failed: Sequence[tuple[str, str]]) -> dg.AssetCheckResult:
    """Fails where a file is FAILED; the next pass tries it again."""
    rows = [f"| {escaped(key)} | {escaped(reason)} |" for key, reason in failed]
    table = "\n".join(["| file | reason |", "|---|---|", *rows]) if rows else "none"
    return dg.AssetCheckResult(
        check_name=READABLE.name,
        passed=not failed,
        metadata={"files_failed": len(failed), "reasons": dg.MetadataValue.md(table)},
    )


def alarms(standing: Standing) -> list[dg.AssetCheckResult]:
    """One result per alarm, with its messages."""
    results = []
    for name in NAMES:
        found = standing.of(name)
        results.append(
            dg.AssetCheckResult(
                check_name=name,
                passed=not found,
                metadata={
                    "alarms": len(found),
                    "messages": "\n".join(one.message for one in found) or "none",
                },
            )
        )
    return results
