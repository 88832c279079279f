"""Runs of the demo: Dagster's own jobs, schedules and sensors in this process, against its instance."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import dagster as dg

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def run_job(name: str, partition: str | None = None, tags: Mapping[str, str] | None = None) -> bool:
    """Whether a run of the job succeeded, over one partition or the range that the tags name."""
    with _instance() as instance:
        try:
            definitions().resolve_job_def(name).execute_in_process(
                instance=instance, partition_key=partition, tags=dict(tags or {}), run_config=QUIET
            )
        except Exception:  # whatever failed is in the run's events; the demo judges what it left
            return False
        except BaseException as interrupted:  # Dagster has an exception of its own for Ctrl-C
            raise KeyboardInterrupt from interrupted
    return True


@contextmanager
def tick_context() -> Iterator[dict[str, Any]]:
    """What a schedule or a sensor is evaluated with: the instance, the repository, the resources."""
    found = definitions()
    with _instance() as instance:
        yield {
            "instance": instance,
            "repository_def": found.get_repository_def(),
            "resources": found.resources or {},
        }


def materialised_partitions(asset: str) -> set[str]:
    """The asset's partitions that have been materialised."""
    import dagster as dg

    with _instance() as instance:
        return set(instance.get_materialized_partitions(dg.AssetKey(asset)))


def definitions() -> "dg.Definitions":
    from orchestration.definitions import defs

    return defs


@contextmanager
def _instance() -> Iterator["dg.DagsterInstance"]:
    import dagster as dg

    with dg.DagsterInstance.get() as instance:
        yield instance
