"""Statements on products, their vectors, and what members did with them, on a given connection."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from assets.recommendations.member_store import lock_member
from assets.recommendations.models import Catalogue, Event, EventKind, GenerationType, MemberHistory
from assets.recommendations.product_text import TEXT_VERSION, embedded_text, text_hash
from resources.named_sql import read_statements

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SQL = read_statements(Path(__file__).parent / "sql" / "products.sql")
DIMENSIONS = 1_536
POPULARITY_HALF_LIFE = timedelta(days=7)
READ_AT_ONCE = 1_000
MOST_EVENTS = 10_000
"""The newest events of a member that are read: as many as no person makes."""
BOUGHT_DAYS = 31
"""A day more than a purchase counts to the ranker, whose time is that of its batch."""

Vector = Sequence[float]


@dataclass(frozen=True)
class ProductText:
    """What is to be embedded of a product, and its hash. `source_hash`: of the columns that it is made of."""

    id: int
    text: str
    text_hash: str
    source_hash: str


def changed(connection: psycopg.Connection, profile: str, limit: int, after: int = 0) -> list[ProductText]:
    """Up to `limit` active products, ids above `after`, that have no vector of the profile and of their text.

    By id. Products that say nothing at all are never among them, nor those whose text was refused. Only texts
    of products whose columns have changed are read; where the text is still the same that is remembered.
    """
    found: list[ProductText] = []
    while len(found) < limit:
        parameters = {"profile": profile, "version": TEXT_VERSION, "after": after, "limit": READ_AT_ONCE}
        rows = connection.execute(SQL["products_after"], parameters).fetchall()
        same: list[ProductText] = []
        for *columns, embedded_hash, refused_hash in rows:
            one = _text_of(*columns)
            if one.text_hash in (embedded_hash, refused_hash):
                same.append(one)
            elif one.text:
                found.append(one)
        _note_same(connection, same, profile)
        if len(rows) < READ_AT_ONCE:
            break
        after = rows[-1][0]
    return found[:limit]


def store(connection: psycopg.Connection, vectors: Iterable[tuple[ProductText, Vector]], profile: str) -> int:
    """How many of the vectors were stored: those of products whose text is still what was embedded."""
    import numpy as np

    _register_vector(connection)
    given = {product.id: (product, vector) for product, vector in vectors}
    with connection.transaction(), connection.cursor() as cursor:
        current = cursor.execute(SQL["lock_texts"], {"ids": list(given)}).fetchall()
        texts = [_text_of(*columns) for columns in current]
        rows = [
            {
                "product_id": one.id,
                "vector": np.asarray(given[one.id][1], dtype=np.float32),
                "profile": profile,
                "text_hash": one.text_hash,
                "source_hash": one.source_hash,
            }
            for one in texts
            if one.text_hash == given[one.id][0].text_hash
        ]
        if rows:
            cursor.executemany(SQL["store_vector"], rows)
    return len(rows)


def refuse(connection: psycopg.Connection, product: ProductText, profile: str, code: str) -> None:
    """Remembers that the model does not take this text; `code` is the API's."""
    connection.execute(SQL["refuse"], {**asdict(product), "profile": profile, "code": code})


def catalogue(connection: psycopg.Connection, profile: str) -> Catalogue:
    """All products with their vectors of the profile and their popularity as of now, by id.

    Events of the future do not count yet.
    """
    import numpy as np

    _register_vector(connection)
    ids: list[int] = []
    categories: list[str] = []
    is_active: list[bool] = []
    popularity: list[float] = []
    vectors: list[NDArray[np.float32] | None] = []
    parameters = {"profile": profile, "half_life": POPULARITY_HALF_LIFE.total_seconds()}
    with connection.transaction(), connection.cursor("catalogue", binary=True) as cursor:
        cursor.itersize = READ_AT_ONCE
        for id_, category, active, weight, vector in cursor.execute(SQL["catalogue"], parameters):
            ids.append(id_)
            categories.append(category)
            is_active.append(active)
            popularity.append(weight)
            vectors.append(None if vector is None else vector.to_numpy())
    return Catalogue(
        np.array(ids, dtype=np.int64),
        np.array(categories, dtype=object),
        np.array(is_active, dtype=np.bool_),
        _as_rows_of_length_1(vectors),
        np.array(popularity, dtype=np.float64),
    )


def history(
    connection: psycopg.Connection,
    member_id: int,
    wanted: GenerationType = GenerationType.G2,
    days: int = 180,
) -> MemberHistory:
    """What the member did in the last `days`, the newest first, and whether profiling was refused.

    A purchase of the last 30 days that is cut off or is still to come (of another clock) is there with the
    weight 0: it tells no taste.
    """
    parameters = {
        "member_id": member_id,
        "days": days,
        "at_most": MOST_EVENTS,
        "bought_days": BOUGHT_DAYS,
    }
    with connection.transaction():
        lock_member(connection, member_id)
        rows = connection.execute(SQL["history"], parameters).fetchall()
    events = [
        Event(product_id, EventKind(kind), weight, occurred_at)
        for _, product_id, kind, weight, occurred_at in rows
        if product_id is not None
    ]
    return MemberHistory(member_id, events, rows[0][0], wanted)


def _text_of(id_: int, name: str, category: str, text: str, columns_hash: str) -> ProductText:
    embedded = embedded_text(name, category, text)
    return ProductText(id_, embedded, text_hash(embedded), TEXT_VERSION + columns_hash)


def _note_same(connection: psycopg.Connection, products: Sequence[ProductText], profile: str) -> None:
    """Columns that changed and say the same, such as by a space: their texts are not read again."""
    if not products:
        return
    parameters = {
        "profile": profile,
        "ids": [one.id for one in products],
        "text_hashes": [one.text_hash for one in products],
        "source_hashes": [one.source_hash for one in products],
    }
    with connection.transaction():
        connection.execute(SQL["note_same_embedded"], parameters)
        connection.execute(SQL["note_same_refused"], parameters)


def _as_rows_of_length_1(vectors: "Sequence[NDArray[np.float32] | None]") -> "NDArray[np.float32]":
    import numpy as np

    rows = np.zeros((len(vectors), DIMENSIONS), dtype=np.float32)
    for row, vector in zip(rows, vectors, strict=True):
        if vector is not None:
            row[:] = vector
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    np.divide(rows, lengths, out=rows, where=lengths > 0)
    return rows


def _register_vector(connection: psycopg.Connection[Any]) -> None:
    """So that vectors go in binary; once a connection."""
    from pgvector.psycopg import register_vector

    if connection.adapters.types.get("vector") is None:
        register_vector(connection)
