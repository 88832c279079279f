"""An enrichment run in a process of its own: `python -m benchmarks.enrichment_process '{…}'`.

So that its time and memory are its alone. Prints one JSON line. Its model is the stand-in, asked through
the real SDK, or one inside the process that answers at once.
"""

import json
import sys
import time
from dataclasses import asdict, dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg

from assets.economy_news import result_kinds
from assets.economy_news.enrichment import Enricher
from assets.economy_news.models import JobType
from assets.economy_news.rules import EnrichmentRules
from benchmarks.economy_news_rows import MODEL, partitions_of
from resources.alerts import AlertResource
from resources.chat import ChatAnswer, ChatResource, JsonSchema, Messages
from resources.spending import Usage


@dataclass(frozen=True)
class Order:
    """What to run. Without `api_url` the model is the one that answers at once, up to `most_calls` times."""

    database_url: str
    day: str
    kind: str
    concurrency: int
    api_url: str = ""
    most_calls: int | None = None


@dataclass(frozen=True)
class Measured:
    """Seconds are of the run alone, without imports; `peak_bytes` is of the whole process."""

    settled: int
    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int


class EnoughAsked(Exception):
    """Ends a run as a failure of the database would."""


class InstantChat(ChatResource):
    """A model that answers an INSIGHT at once, in this process."""

    most_calls: int | None = None
    made: list[int] = []  # noqa: RUF012 (pydantic copies it)

    def ask(self, messages: Messages, schema: JsonSchema) -> ChatAnswer:
        """Always the same three insights. Raises EnoughAsked after `most_calls`."""
        self.made.append(1)
        if self.most_calls is not None and len(self.made) > self.most_calls:
            raise EnoughAsked
        return ChatAnswer(_ANSWER, Usage(1, 900, 0, 300, Decimal("0.000315")), 0.0)


_INSIGHT = {
    "title": "대출 금리가 다시 오른 까닭",
    "detail": "은행권의 조달 비용이 오르면서 새로 나가는 대출의 금리가 석 달 만에 올랐어요.",
    "why_it_matters": "집을 사려고 돈을 빌리는 사람의 한 달 이자가 늘어날 수 있어요.",
}
_ANSWER = json.dumps({"insights": [_INSIGHT] * 3}, ensure_ascii=False)


def run(order: Order) -> Measured:
    """Settles what is due, on one connection, as an asset's step does."""
    kind = result_kinds.KINDS[JobType(order.kind)]
    rules = EnrichmentRules(concurrency=order.concurrency, daily_spending_cap_usd="")
    with psycopg.connect(order.database_url, autocommit=True) as connection:
        enricher = Enricher(
            kind,
            partitions_of(date.fromisoformat(order.day)),
            "bench",
            connection,
            _chat(order),
            rules,
            AlertResource(),
        )
        started, cpu = time.perf_counter(), time.process_time()
        try:
            settled = enricher.run().succeeded
        except EnoughAsked:
            settled = order.most_calls or 0
        return Measured(settled, time.perf_counter() - started, time.process_time() - cpu, _peak_bytes())


def _chat(order: Order) -> ChatResource:
    if not order.api_url:
        return InstantChat(model=MODEL, api_key="sk-bench", most_calls=order.most_calls)
    import openai  # noqa: F401 (a second that every run pays once is not the price of a call)

    return ChatResource(model=MODEL, base_url=f"{order.api_url}/v1", api_key="sk-bench")


def _peak_bytes() -> int:
    """The most memory this process held. Not getrusage's: that starts with what the parent held."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def main(argument: str) -> None:
    arguments: dict[str, Any] = json.loads(argument)
    print(json.dumps(asdict(run(Order(**arguments)))))


if __name__ == "__main__":
    main(sys.argv[1])
