"""Pools, lock tags, priorities and maximum run times.

What belongs here: numbers and names that bound how work is run. What does not: what an operator sets
(`settings.py`), and correctness, which rests on leases and constraints in the database. A leaf.
"""

import json
import warnings
from datetime import date

import dagster as dg

# Beta in Dagster 1.13, pinned, and used by many assets: no line of warning for each of them.
for _beta in ("Parameter `backfill_policy`", "Class `MultiToSingleDimensionPartitionMapping`"):
    warnings.filterwarnings("ignore", message=_beta, category=dg.BetaWarning)

# A range of partitions is one run: eight sections of a day cost one start.
ONE_RUN_PER_RANGE = dg.BackfillPolicy.single_run()

OPENAI_POOL = "openai"
NAVER_POOL = "naver"

# Which Celery workers take a job's runs, where there are any (deploy/celery); without the tag: `default`.
QUEUE_TAG = "dagster-celery/queue"
CRAWL_QUEUE = "crawl"
LLM_QUEUE = "llm"
BATCH_QUEUE = "batch"

# What a run's pod gets on Kubernetes (deploy/kubernetes), where the chart's default is not right for its job;
# other launchers do not look at it. Batches of 50,000 lines and enriched days hold more than a crawl does.
POD_TAG = "dagster-k8s/config"

LOCK_TAG = "lock"
MAX_RUNTIME_TAG = "dagster/max_runtime"
PRIORITY_TAG = "dagster/priority"
MAX_RETRIES_TAG = "dagster/max_retries"

CRAWL_MAX_SECONDS = 600
# A pass ends by itself well before its run would be ended, so that nothing is cut off.
CRAWL_SLICE_SECONDS = 480
ENRICH_MAX_SECONDS = 900
# Five kinds of results one after the other, each with time to settle what is under way.
ENRICH_SLICE_SECONDS = 140

REPAIR_MAX_SECONDS = 600
RETENTION_MAX_SECONDS = 3_000

RAW_FILES_MAX_SECONDS = 1_800
# Front pages come last in a run and the refresh brings what is left, so they take no time from files.
FRONT_PAGES_SLICE_SECONDS = 600
RAW_REPORT_MAX_SECONDS = 300

# Fifty thousand lines are written, sent and read in one step; the batch itself is waited for by nobody.
RECIPES_MAX_SECONDS = 3_600

# A run goes on taking what arrives for so long, so that steady requests do not wait for a start each.
CONTEXT_SLICE_SECONDS = 600
CONTEXT_MAX_SECONDS = 900
PRESETS_MAX_SECONDS = 300

RECOMMENDATIONS_SLICE_SECONDS = 600
RECOMMENDATIONS_MAX_SECONDS = 900

LIVE_PRIORITY = "10"
# Below the crawl, and bounded in dagster.yaml: a slow model must not take every place of the queue.
SLOW_PRIORITY = "5"
SLOW_TAG = {"granary/waits_for": "model"}
# At most ten partitions of raw files at once: bounded in dagster.yaml.
RAW_FILES_TAG = {"granary/partitions_of": "raw_files"}


def job_tags(max_seconds: int, queue: str | None = None) -> dict[str, str]:
    """Tags of every run of a job, by hand or not: how long it may take, and which workers take it."""
    return {MAX_RUNTIME_TAG: str(max_seconds), **({QUEUE_TAG: queue} if queue else {})}


def pod_tags(cpu: str, memory: str) -> dict[str, str]:
    """Tags of a job whose pods ask for so much: CPUs as `500m`, memory as `1Gi`, which is also its limit."""
    resources = {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}}
    return {POD_TAG: json.dumps({"container_config": {"resources": resources}})}


def automatic_run_tags(job_name: str, day: date) -> dict[str, str]:
    """Tags of a run that a schedule or sensor asks for.

    The lock lets one run of the job and day through the queue at a time; it bounds load, no more. Retries
    are off, because the schedule or sensor brings the work back by itself.
    """
    return {
        LOCK_TAG: lock_of(job_name, day),
        MAX_RETRIES_TAG: "0",
        PRIORITY_TAG: LIVE_PRIORITY,
    }


def slow_run_tags(job_name: str, day: date) -> dict[str, str]:
    """The same for a run that waits for a model most of its time: after crawls, and few at once."""
    return {**automatic_run_tags(job_name, day), PRIORITY_TAG: SLOW_PRIORITY, **SLOW_TAG}


def raw_files_run_tags(job_name: str, key: str) -> dict[str, str]:
    """Tags of a run over one partition that a schedule or sensor asks for; the sensor tries it again."""
    return {LOCK_TAG: f"{job_name}:{key}", MAX_RETRIES_TAG: "0", PRIORITY_TAG: SLOW_PRIORITY}


def lock_of(job_name: str, day: date) -> str:
    """The lock's value, as `economy_news_crawl:2026-11-30`."""
    return f"{job_name}:{day.isoformat()}"
