"""The rows of `granary.counter` in Prometheus' text format, for whoever serves or pushes them."""

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

CounterRow = tuple[str, Mapping[str, object], float]


def counter_families(rows: Iterable[CounterRow]) -> list[Metric]:
    """The counters by name: `x_total` as a counter, `x_sum` with `x_count` as the summary x, else untyped.

    Rows of one name may have different labels.
    """
    families: dict[tuple[str, str], Metric] = {}
    for name, labels, value in sorted(rows, key=lambda row: (row[0], sorted(row[1].items()))):
        family, kind = _family(name)
        metric = families.setdefault((family, kind), Metric(family, "From granary.counter.", kind))
        metric.add_sample(name, {label: str(text) for label, text in labels.items()}, value)
    return list(families.values())


def registry_of(families: Iterable[Metric]) -> CollectorRegistry:
    """A registry with nothing but these families."""
    registry = CollectorRegistry()
    registry.register(_Collected(families))
    return registry


def exposition(families: Iterable[Metric]) -> bytes:
    """The families in Prometheus' text format 0.0.4, UTF-8."""
    return generate_latest(registry_of(families))


class _Collected(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def _family(name: str) -> tuple[str, str]:
    for suffix, kind in (("_total", "counter"), ("_sum", "summary"), ("_count", "summary")):
        if name.endswith(suffix):
            return name.removesuffix(suffix), kind
    return name, "unknown"
