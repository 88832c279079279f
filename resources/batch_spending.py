"""Money of batches: reserved when one is planned, settled once to what it cost, whichever run sees its end.

A row for each batch, since hours and other runs lie between. The day that pays is that of the plan.
"""

from decimal import Decimal

import psycopg

from resources import spending
from resources.model_table import Model
from resources.spending import Reservation, Usage

# Two that reserve for one batch at once would both take the money, and one would then fail.
_ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtext('batch_reservation'), hashtext(%(intent)s))"

_KEEP = """
INSERT INTO granary.batch_reservation (intent, pipeline, model, day, usd, reserved_at)
VALUES (%(intent)s, %(pipeline)s, %(model)s, %(day)s, %(usd)s, granary.now())
"""

_KNOWN = "SELECT day, usd FROM granary.batch_reservation WHERE intent = %(intent)s"

_SETTLE = """
UPDATE granary.batch_reservation SET settled_at = granary.now()
WHERE intent = %(intent)s AND settled_at IS NULL
RETURNING pipeline, model, day, usd
"""


def reserve(
    connection: psycopg.Connection,
    intent: str,
    pipeline: str,
    model: Model,
    input_tokens: int,
    max_output_tokens: int,
    cap_usd: Decimal | None,
) -> Reservation:
    """The batch's reservation at the model's prices (`Model.in_batch()`); the one that it has, asked again.

    Raises SpendingCapReached where the day's cap has no room for the most that it can cost.
    """
    with connection.transaction():
        connection.execute(_ONE_AT_A_TIME, {"intent": intent})
        known = connection.execute(_KNOWN, {"intent": intent}).fetchone()
        if known is not None:
            return Reservation(*known)
        reservation = spending.reserve(connection, model, input_tokens, max_output_tokens, cap_usd)
        connection.execute(
            _KEEP,
            {
                "intent": intent,
                "pipeline": pipeline,
                "model": model.name,
                "day": reservation.day,
                "usd": reservation.usd,
            },
        )
    return reservation


def settle(connection: psycopg.Connection, intent: str, usage: Usage) -> bool:
    """Turns the reservation into the real cost. False, and nothing booked, where that was done before."""
    with connection.transaction():
        row = connection.execute(_SETTLE, {"intent": intent}).fetchone()
        if row is None:
            return False
        pipeline, model, day, usd = row
        spending.settle(connection, pipeline, model, Reservation(day, usd), usage)
    return True


def give_back(connection: psycopg.Connection, intent: str) -> bool:
    """The batch never came to be and costs nothing. False where it was settled before, or never reserved."""
    return settle(connection, intent, Usage())
