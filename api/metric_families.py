"""What `/metrics` tells beside the counters, from the figures of the moment."""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from prometheus_client.metrics_core import Metric

from operations.queue_store import Figures, Queue
from resources.alert_delivery import FAILED
from resources.exposition import CounterRow

Samples = Iterable[tuple[Mapping[str, str], float]]

FROM_ZERO: tuple[tuple[str, dict[str, str]], ...] = (
    ("ai_leases_lost_total", {"pipeline": "economy_news"}),
    ("alerts_sent_total", {"outcome": FAILED}),
    ("context_contract_breaches_total", {}),
)
"""Counters whose first event is an alert's affair: to Prometheus a series that begins has not risen."""


def counters(figures: Figures) -> list[CounterRow]:
    """All that was counted, and 0 for those `FROM_ZERO` that never were; nothing where it cannot be read."""
    if figures.failed["counters"]:
        return []
    known = {(name, tuple(labels.items())) for name, labels, _ in figures.counters}
    begun = [(name, labels, 0.0) for name, labels in FROM_ZERO if (name, tuple(labels.items())) not in known]
    return [*figures.counters, *begun]


def families(
    figures: Figures, recipes: Queue | None, failed: Mapping[str, bool], cap_usd: Decimal | None
) -> Iterator[Metric]:
    """All gauges. `failed`: the parts, and whether they could not be asked for; those have no samples.

    No cap is an infinite one, so that what is spent can always be compared with it.
    """
    queues = [*figures.queues, *([recipes] if recipes else [])]
    yield from queue_families(queues)
    yield from news_families(figures.news_jobs)
    for contexts in (queue for queue in queues if queue.pipeline == "context_tags"):
        yield from context_families(contexts, figures.context_stages)
    money = {
        "spent": figures.spent_usd,
        "reserved": figures.reserved_usd,
        "cap": float("inf") if cap_usd is None else float(cap_usd),
    }
    yield _gauge(
        "granary_spending_usd",
        "USD of the running day (Asia/Seoul): spent, reserved for what is under way, and the cap.",
        (({"kind": kind}, usd) for kind, usd in money.items() if usd is not None),
    )
    yield _gauge(
        "granary_gate_shut",
        "1 for each model whose AI gate is shut, with the reason; no sample where all are open.",
        (({"model": model, "reason": reason}, 1) for model, reason in sorted(figures.shut_gates)),
    )
    standing = figures.alarms_standing
    yield _gauge(
        "granary_alarms_standing",
        "Alarms that have not cleared.",
        [] if standing is None else [({}, standing)],
    )
    age = figures.heartbeat_age_seconds
    yield _gauge(
        "granary_heartbeat_age_seconds",
        "Since the last daily heartbeat was delivered; no sample before the first.",
        [] if age is None else [({}, max(age, 0.0))],
    )
    yield _gauge(
        "granary_scrape_failed",
        "1 for each part of these figures that could not be asked for.",
        (({"part": part}, float(has_failed)) for part, has_failed in failed.items()),
    )


def queue_families(queues: Iterable[Queue]) -> Iterator[Metric]:
    """What waits, is under way or has failed in each pipeline, and for how long."""
    queues = list(queues)
    yield _gauge(
        "granary_queue_size",
        "Items by pipeline and status, without those that ended well.",
        (
            ({"pipeline": queue.pipeline, "status": status}, items)
            for queue in queues
            for status, items in queue.sizes.items()
        ),
    )
    yield _gauge(
        "granary_oldest_waiting_seconds",
        "How long the oldest item waits that a run could take now.",
        (({"pipeline": queue.pipeline}, queue.oldest_waiting_seconds) for queue in queues),
    )
    batches = [(queue.pipeline, queue.batches) for queue in queues if queue.batches]
    yield _gauge(
        "granary_batches_open",
        "Batches planned or at the provider.",
        (({"pipeline": pipeline}, known.open) for pipeline, known in batches),
    )
    yield _gauge(
        "granary_oldest_batch_seconds",
        "How long the oldest open batch is open.",
        (({"pipeline": pipeline}, known.oldest_seconds) for pipeline, known in batches),
    )


def news_families(jobs: Iterable[tuple[str, str, int]]) -> Iterator[Metric]:
    """How many AI jobs of each type have each status."""
    yield _gauge(
        "ai_jobs_queue_size",
        "AI jobs of economy_news by type and status, without those that ended well.",
        (({"type": job_type, "status": status}, items) for job_type, status, items in sorted(jobs)),
    )


def context_families(queue: Queue, stages: Iterable[tuple[str, str, int]]) -> Iterator[Metric]:
    """How many requests of context_tags wait, for how many seconds the oldest; stages by status.

    `stages` that stand in no row are shown as 0, so that an alarm on them has a number to look at.
    """
    yield _gauge(
        "context_requests_waiting", "Texts posted that no run has handled.", [({}, queue.sizes["PENDING"])]
    )
    yield _gauge(
        "context_oldest_waiting_seconds",
        "How long the oldest of them waits.",
        [({}, queue.oldest_waiting_seconds)],
    )
    sizes = {(stage, status): size for stage, status, size in stages}
    yield _gauge(
        "context_stage_size",
        "Contexts by stage and status, without those that ended well.",
        (
            ({"stage": stage, "status": status}, sizes.get((stage, status), 0))
            for stage in ("embedding", "keyword")
            for status in ("FAILED", "PENDING", "PROCESSING")
        ),
    )


def _gauge(name: str, meaning: str, samples: Samples) -> Metric:
    gauge = Metric(name, meaning, "gauge")
    for labels, value in samples:
        gauge.add_sample(name, dict(labels), value)
    return gauge
