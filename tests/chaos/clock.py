"""The database's clock for a storm: it goes as fast as the real one, and leaps when told to."""

from datetime import UTC, datetime

import psycopg

# As in the migration, but for the seconds that are added; a session may still set its own time.
_REPLACE = """
CREATE OR REPLACE FUNCTION granary.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(
        nullif(current_setting('granary.now', true), '')::timestamptz, now() + interval '{seconds} seconds'
    )
$$
"""


class Clock:
    """`granary.now()` of a database, for every session at once."""

    def __init__(self, database_url: str, starts_at: str | None = None) -> None:
        """`starts_at` (ISO, with its zone): its time now; None: the real time."""
        self._url = database_url
        self._ahead = 0.0
        if starts_at is not None:
            self._ahead = (datetime.fromisoformat(starts_at) - datetime.now(UTC)).total_seconds()
        self.forward(0)

    def forward(self, seconds: float) -> None:
        """Puts it forward."""
        self._ahead += seconds
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(_REPLACE.format(seconds=self._ahead).encode())

    def now(self) -> datetime:
        """Its time."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            row = connection.execute("SELECT granary.now()").fetchone()
        assert row is not None
        now: datetime = row[0]
        return now
