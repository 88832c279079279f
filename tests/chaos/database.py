"""What the judges ask of Postgres, each time by a connection of its own: a storm restarts the server."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from tests.chaos.services import stand_in

_MONEY = """
SELECT coalesce(sum(spent_usd), 0)::float AS spent, coalesce(sum(reserved_usd), 0)::float AS reserved
FROM granary.spending_day
"""


def rows(
    database_url: str,
    query: str | sql.Composed,
    parameters: Sequence[object] | Mapping[str, object] | None = None,
) -> list[dict[str, Any]]:
    """The rows by column."""
    with (
        psycopg.connect(database_url, autocommit=True) as connection,
        connection.cursor(row_factory=dict_row) as cursor,
    ):
        return cursor.execute(query.encode() if isinstance(query, str) else query, parameters).fetchall()


def counted(database_url: str, name: str, **labels: str) -> int:
    """The sum of a counter over all labels that have these."""
    query = (
        "SELECT coalesce(sum(value), 0)::integer AS n FROM granary.counter WHERE name = %s AND labels @> %s"
    )
    (row,) = rows(database_url, query, (name, Jsonb(labels)))
    return int(row["n"])


def wrong_money(database_url: str, openai: str) -> Iterator[str]:
    """What is settled is at most what was charged; what was charged is settled, or still reserved."""
    charged = float(stand_in(openai).get("ledger/totals")["cost_usd"])
    (money,) = rows(database_url, _MONEY)
    spent, reserved = money["spent"], money["reserved"]
    if spent > charged + 1e-6 or spent + reserved < charged - 1e-6:
        yield f"booked {spent:.6f} USD and reserved {reserved:.6f}, charged {charged:.6f}"
