"""Statements on what was spent and reserved, on a given connection."""

from pathlib import Path

import psycopg

from operations.costs import Costs, DayTotal, ModelDay, OpenBatches
from resources.named_sql import read_statements

SQL = read_statements(Path(__file__).parent / "sql" / "costs.sql")


def read_costs(connection: psycopg.Connection, days: int) -> Costs:
    """The last `days` days up to the running one (Asia/Seoul), newest first; days without a call are none."""
    with connection.transaction():
        row = connection.execute(SQL["now"]).fetchone()
        assert row is not None
        parameters = {"days": days}
        return Costs(
            now=row[0],
            days=days,
            spent=[ModelDay(*found) for found in connection.execute(SQL["by_day"], parameters)],
            totals=[DayTotal(*found) for found in connection.execute(SQL["day_totals"], parameters)],
            open_batches=[OpenBatches(*found) for found in connection.execute(SQL["open_batches"])],
        )
