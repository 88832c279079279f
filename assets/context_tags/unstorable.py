"""A statement that carries a user's text and was refused for what it carries, told without quoting it."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg


class Unstorable(Exception):
    """Permanent: nothing of the batch is stored; who stores its rows one by one finds the guilty one."""

    def __init__(self, sqlstate: str | None, constraint: str | None) -> None:
        super().__init__(f"refused by Postgres: {sqlstate or 'no SQLSTATE'}, {constraint or 'no constraint'}")
        self.sqlstate = sqlstate
        self.constraint = constraint


@contextmanager
def without_texts() -> Iterator[None]:
    """Turns what Postgres or its driver refuses into Unstorable: their messages quote rows and values."""
    try:
        yield
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        refused = Unstorable(error.sqlstate, error.diag.constraint_name)
    except (UnicodeEncodeError, OverflowError):  # a lone surrogate, with the whole text; no 4-byte float
        refused = Unstorable(None, None)
    else:
        return
    raise refused from None
