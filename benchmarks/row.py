"""One line of the table: what was measured, what it was measured against, and whether the promise is kept."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """What a value is compared with, in the same unit and measured in the same run."""

    name: str
    value: float


@dataclass(frozen=True)
class Row:
    """As it stands in bench.json. `ratio` is value ÷ peer; without a target `met` is None."""

    name: str
    value: float
    unit: str
    target: str | None
    peer: str | None
    ratio: float | None
    met: bool | None


def row(
    name: str,
    value: float,
    unit: str,
    peer: Peer | None = None,
    *,
    at_most: float | None = None,
    ratio_at_least: float | None = None,
    ratio_at_most: float | None = None,
) -> Row:
    """The row with its target judged: a limit on the value, or on its ratio to the peer; or none at all."""
    ratio = None if peer is None else value / peer.value
    target, met = None, None
    if at_most is not None:
        target, met = f"≤ {shown(at_most)}", value <= at_most
    elif ratio is not None and ratio_at_least is not None:
        target, met = f"≥ {shown(ratio_at_least)} × peer", ratio >= ratio_at_least
    elif ratio is not None and ratio_at_most is not None:
        target, met = f"≤ {shown(ratio_at_most)} × peer", ratio <= ratio_at_most
    against = None if peer is None else f"{peer.name}: {shown(peer.value)}"
    return Row(name, value, unit, target, against, ratio, met)


def shown(number: float) -> str:
    """Three digits that count, and never more behind the point than that takes."""
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}"
