"""Money: reserved before a call by one conditional statement, settled to its real cost after it.

The day is that of `granary.today()` (Asia/Seoul). A hundred calls at once cannot pass the cap, since
each takes its place in the row of the day before it is made. What a dead run had reserved stays
reserved until the day ends: its call may have been charged.
"""

from dataclasses import dataclass
from datetime import date
from decimal import ROUND_UP, Decimal

import psycopg

from resources.errors import SpendingCapReached
from resources.model_table import Model

KEPT_TO = Decimal("0.00000001")  # as the columns keep it: what is reserved is what is given back

_RESERVE = """
INSERT INTO granary.spending_day AS today (day, reserved_usd)
SELECT granary.today(), %(usd)s
WHERE %(cap)s::numeric IS NULL OR (%(cap)s::numeric > 0 AND %(usd)s <= %(cap)s::numeric)
ON CONFLICT (day) DO UPDATE SET reserved_usd = today.reserved_usd + excluded.reserved_usd
WHERE %(cap)s::numeric IS NULL
   OR today.reserved_usd + today.spent_usd + excluded.reserved_usd <= %(cap)s::numeric
RETURNING day
"""

_SETTLE_DAY = """
UPDATE granary.spending_day
SET reserved_usd = reserved_usd - %(reserved_usd)s, spent_usd = spent_usd + %(cost_usd)s
WHERE day = %(day)s
"""

_SETTLE = """
INSERT INTO granary.spending AS total
    (day, pipeline, model, calls, input_tokens, cached_tokens, output_tokens, cost_usd)
VALUES (%(day)s, %(pipeline)s, %(model)s, %(calls)s, %(input_tokens)s, %(cached_tokens)s,
        %(output_tokens)s, %(cost_usd)s)
ON CONFLICT (day, pipeline, model) DO UPDATE SET
    calls = total.calls + excluded.calls,
    input_tokens = total.input_tokens + excluded.input_tokens,
    cached_tokens = total.cached_tokens + excluded.cached_tokens,
    output_tokens = total.output_tokens + excluded.output_tokens,
    cost_usd = total.cost_usd + excluded.cost_usd
"""


@dataclass(frozen=True)
class Reservation:
    """USD set aside for one call, on the day (Asia/Seoul) that pays for it."""

    day: date
    usd: Decimal


@dataclass(frozen=True)
class Usage:
    """Tokens of one or more calls; `cached_tokens` are part of `input_tokens`; USD."""

    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Decimal = Decimal(0)

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
            self.cost_usd + other.cost_usd,
        )


def reserve(
    connection: psycopg.Connection,
    model: Model,
    input_tokens: int,
    max_output_tokens: int,
    cap_usd: Decimal | None,
) -> Reservation:
    """The reservation, already committed if the connection is in autocommit mode.

    Raises SpendingCapReached where the day's cap has no room for the most that the call can cost.
    """
    usd = model.most_it_can_cost_usd(input_tokens, max_output_tokens).quantize(KEPT_TO, ROUND_UP)
    row = connection.execute(_RESERVE, {"usd": usd, "cap": cap_usd}).fetchone()
    if row is None:
        raise SpendingCapReached(
            f"the day's cap DAILY_SPENDING_CAP_USD={cap_usd} has no room for a call of up to {usd:.4f} USD",
            by_this_call_alone=cap_usd is not None and 0 < cap_usd < usd,
        )
    return Reservation(row[0], usd)


def settle(
    connection: psycopg.Connection, pipeline: str, model: str, reservation: Reservation, usage: Usage
) -> None:
    """Turns the reservation into the real cost; an unused one (no calls) is given back."""
    day = {"day": reservation.day, "reserved_usd": reservation.usd, "cost_usd": usage.cost_usd}
    connection.execute(_SETTLE_DAY, day)
    if usage.calls:
        connection.execute(
            _SETTLE,
            {
                "day": reservation.day,
                "pipeline": pipeline,
                "model": model,
                "calls": usage.calls,
                "input_tokens": usage.input_tokens,
                "cached_tokens": usage.cached_tokens,
                "output_tokens": usage.output_tokens,
                "cost_usd": usage.cost_usd,
            },
        )
