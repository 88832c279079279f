"""Fetch: pages of the open API become job records; the cursor moves by what was received and stored."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from assets.recipes import fetch_store
from assets.recipes.models import FetchedRow
from assets.recipes.open_api import (
    OpenApiRefused,
    OpenApiUnavailable,
    OpenApiUnreadable,
    RecipePage,
    read_answer,
    source_url,
)
from assets.recipes.recipe_row import raw_hash
from resources.errors import ServiceError, ServiceNotConfigured, ServiceUnavailable
from resources.recipe_api import RecipeApiResource

if TYPE_CHECKING:
    from assets.recipes.job_store import Mongo

SOURCE = "foodsafetykorea"
MOST_ROWS_A_CALL = 1_000
MOST_ROW_CHARACTERS = 200_000
"""Far above any recipe. MongoDB refuses what is much larger, and the cursor would never get past it."""


@contextmanager
def api_failures() -> Iterator[None]:
    """The API's refusals as service errors: who must act, and who tries again."""
    try:
        yield
    except OpenApiRefused as error:
        raise ServiceNotConfigured(str(error)) from None
    except OpenApiUnavailable as error:
        # A spent quota is not there again within minutes: the next fetch goes on from the cursor.
        raise (ServiceError if error.retry_later else ServiceUnavailable)(str(error)) from None
    except OpenApiUnreadable as error:
        raise ServiceUnavailable(str(error)) from None


@dataclass
class Fetched:
    """What a fetch received and did with it. `unusable`: without an id, or endless. `calls`: to the API."""

    received: int = 0
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    unusable: int = 0
    calls: int = 0


def fetch(
    db: "Mongo",
    api: RecipeApiResource,
    run_id: str,
    limit: int,
    now: datetime,
    sweep: bool = False,
    force: bool = False,
) -> Fetched:
    """Fetches the next `limit` recipes behind the cursor; a sweep looks again at all before it, too.

    What is known starts anew where the source edited it, with `force` in any case. A short page moves the
    cursor by what it had, so that what the source adds later is not skipped. Raises FetchFailed where the
    API does not answer, and as `read_answer` does; what was stored by then stays, and the cursor is behind
    it.
    """
    fetched = Fetched()
    last = fetch_store.cursor(db, SOURCE)
    if sweep:
        position = 0
        while position < last:
            wanted = min(position + MOST_ROWS_A_CALL, last)
            rows = _page(db, api, run_id, position + 1, wanted, now, fetched, force)
            if not rows:
                break
            position += rows
    end = last + limit
    while last < end:
        wanted = min(last + MOST_ROWS_A_CALL, end)
        rows = _page(db, api, run_id, last + 1, wanted, now, fetched, force)
        if not rows:
            break
        short = last + rows < wanted
        last += rows
        fetch_store.move_cursor(db, SOURCE, last, frm=last - rows)
        if short:
            break
    return fetched


def _page(
    db: "Mongo",
    api: RecipeApiResource,
    run_id: str,
    start: int,
    end: int,
    now: datetime,
    fetched: Fetched,
    force: bool,
) -> int:
    """Stores the rows `start` to `end`, both included, from 1; how many of these the API sent."""
    page: RecipePage = read_answer(api.get(source_url(api.base_url, api.key(), start, end)))
    usable = [row for row in page.rows if sum(map(len, row.values())) <= MOST_ROW_CHARACTERS]
    rows = [FetchedRow(row["RCP_SEQ"], row, raw_hash(row)) for row in usable]
    counts = fetch_store.store_fetched(db, SOURCE, run_id, rows, now, force)
    fetched.calls += 1
    fetched.received += page.received
    fetched.unusable += page.unusable + len(page.rows) - len(usable)
    fetched.new += counts.new
    fetched.changed += counts.changed
    fetched.unchanged += counts.unchanged
    # More than was asked for is stored too, but which rows they are is not known.
    return min(page.received, end - start + 1)
