"""Statements on what embedding batches ask for: whose an ingredient is, and which document was sent.

On a given Postgres connection. The vectors themselves are in `recipe_store.py`.
"""

from collections.abc import Iterable, Sequence

import psycopg
from psycopg.types.json import Jsonb

from assets.recipes.recipe_store import SQL


def claim_ingredients(
    connection: psycopg.Connection,
    ids: Sequence[int],
    claimed_by: str,
    model: str,
    open_intents: Sequence[str],
    limit: int,
) -> dict[int, str]:
    """Ingredients without a vector of the model, with their names, which are the caller's to ask for.

    Those of `ids`, and those that an earlier batch has brought none for.
    """
    parameters = {
        "ids": list(ids),
        "claimed_by": claimed_by,
        "model": model,
        "open_intents": list(open_intents),
        "limit": limit,
    }
    return dict(connection.execute(SQL["claim_ingredients"], parameters).fetchall())


def hand_over_ingredients(
    connection: psycopg.Connection, ids: Sequence[int], claimed_by: str, intent: str
) -> None:
    """What the run has claimed is the planned batch's."""
    parameters = {"ids": list(ids), "claimed_by": claimed_by, "intent": intent}
    connection.execute(SQL["hand_over_ingredients"], parameters)


def free_ingredients(connection: psycopg.Connection, holder: str) -> None:
    """Whatever the run or the batch holds may be claimed by others."""
    connection.execute(SQL["free_ingredients"], {"holder": holder})


def note_sent_documents(
    connection: psycopg.Connection, intent: str, sent: Iterable[tuple[str, str, str]]
) -> None:
    """Keeps the hashes of the documents that a batch is to send: (source, source_recipe_id, hash)."""
    rows = [{"source": source, "source_recipe_id": id_, "hash": hash_} for source, id_, hash_ in sent]
    connection.execute(SQL["note_sent_documents"], {"intent": intent, "sent": Jsonb(rows)})


def sent_documents(connection: psycopg.Connection, intent: str, recipe_ids: Sequence[int]) -> dict[int, str]:
    """The hashes of the documents that the batch has sent, by recipe."""
    parameters = {"intent": intent, "ids": list(recipe_ids)}
    return dict(connection.execute(SQL["sent_documents"], parameters).fetchall())
