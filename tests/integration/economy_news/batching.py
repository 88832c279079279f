"""Steps with batches as the assets make them, and what they leave behind here and at the provider."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import httpx
import psycopg
from pydantic import PrivateAttr

from assets.economy_news import job_store, result_kinds
from assets.economy_news.batch_run import BatchOutcome
from assets.economy_news.batch_step import BatchStep
from assets.economy_news.models import JobMode, Partition
from assets.economy_news.result_kinds import ResultKind
from assets.economy_news.rules import EnrichmentRules
from resources.alerts import AlertResource
from resources.batches import BatchApi, BatchResource
from resources.chat import ChatResource
from tests.integration.economy_news.factories import HERE, MODEL, jobs_waiting, rows
from tests.integration.stand_ins import StandIn

KEY = "sk-tests"


class OneClient(BatchResource):
    """Opens one client for all runs of a process: reading its certificates costs more than most runs."""

    _opened: BatchApi | None = PrivateAttr(default=None)

    @contextmanager
    def open(self) -> Iterator[BatchApi]:
        if self._opened is None:
            self._opened = BatchApi(self._new_client(), self._failures)
        yield self._opened


@cache
def resource_at(url: str, timeout_ms: int = 10_000) -> BatchResource:
    """The provider for batches."""
    return OneClient(model=MODEL, base_url=f"{url}/v1", timeout_ms=timeout_ms, api_key=KEY)


def a_step(
    connection: psycopg.Connection,
    url: str,
    run_id: str = "run-1",
    kind: ResultKind = result_kinds.SUMMARY,
    partitions: Sequence[Partition] = (HERE,),
    limits: Mapping[str, int] | None = None,
    timeout_ms: int = 10_000,
    alerts: AlertResource | None = None,
    **rules: Any,
) -> BatchOutcome:
    """What one step does with batches of its kind."""
    chat = ChatResource(model=MODEL, base_url=f"{url}/v1", api_key=KEY)
    return BatchStep(
        kind,
        partitions,
        run_id,
        connection,
        chat,
        resource_at(url, timeout_ms),
        EnrichmentRules(**rules),
        alerts or AlertResource(),
        **(limits or {}),
    ).run()


def waiting_for_a_batch(connection: psycopg.Connection, count: int, partition: Partition = HERE) -> list[int]:
    """The ids of so many SUMMARY jobs that are to be asked in a batch."""
    ids = jobs_waiting(connection, count, partition)
    job_store.set_mode(connection, result_kinds.SUMMARY.job_type, [partition], JobMode.batch)
    return ids


def end_batches(url: str) -> None:
    """On command, so that no test waits."""
    httpx.post(f"{url}/_control/batches/advance", timeout=30).raise_for_status()


def states(connection: psycopg.Connection, job_type: str = "SUMMARY") -> Counter[str]:
    """How many jobs of the type are in each status."""
    found = rows(connection, "SELECT status FROM news.ai_job WHERE job_type = %s", job_type)
    return Counter(row["status"] for row in found)


def batches(connection: psycopg.Connection) -> list[dict[str, Any]]:
    """Every batch, oldest first."""
    return rows(connection, "SELECT * FROM news.ai_batch ORDER BY planned_at, plan")


def lines_paid(api: StandIn) -> list[dict[str, Any]]:
    """What the provider's account says of every line of a batch."""
    return [one for one in api.get("ledger")["entries"] if one["custom_id"] is not None]


def created(api: StandIn) -> list[str]:
    """The ids of the batches that there are at the provider."""
    entries = api.get("ledger")["entries"]
    return [
        one["batch_id"] for one in entries if one["endpoint"] == "batches/create" and one["status"] == 200
    ]


def files(url: str) -> list[str]:
    """The names of the files at the provider."""
    headers = {"Authorization": f"Bearer {KEY}"}
    listed = httpx.get(f"{url}/v1/files", headers=headers, timeout=30).raise_for_status().json()["data"]
    return [one["filename"] for one in listed]


def money(connection: psycopg.Connection) -> dict[str, Any]:
    """What is reserved and spent over all days."""
    (row,) = rows(
        connection,
        "SELECT coalesce(sum(reserved_usd), 0) AS reserved, coalesce(sum(spent_usd), 0) AS spent "
        "FROM granary.spending_day",
    )
    return row
