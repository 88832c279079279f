"""Products, vectors and events as a ranker is given them, and which products have no vector of their text."""

from datetime import timedelta
from typing import Any

import numpy as np
import psycopg
import pytest

from assets.recommendations import product_store
from assets.recommendations.models import Event, EventKind, GenerationType
from assets.recommendations.product_store import MOST_EVENTS, READ_AT_ONCE, ProductText, changed, store
from assets.recommendations.product_text import TEXT_VERSION
from tests.integration.recommendations.factories import (
    HOUR,
    NOON,
    PROFILE,
    Connect,
    a_product,
    an_event,
    at,
    rows,
)
from tests.integration.recommendations.races import waiting_for

OTHER = "openai-text-embedding-3-large-1536-cosine-v1"
DAY = timedelta(days=1)


def a_vector(first: float, second: float = 0.0) -> list[float]:
    return [first, second] + [0.0] * 1_534


def embed_all(connection: psycopg.Connection, vector: Any = None, profile: str = PROFILE) -> int:
    products = changed(connection, profile, 100)
    return store(connection, [(one, vector or a_vector(1)) for one in products], profile)


def ids(products: list[ProductText]) -> list[int]:
    return [one.id for one in products]


def test_only_products_without_a_vector_of_their_text_are_to_be_embedded(noon: psycopg.Connection) -> None:
    for id_ in range(1, 6):
        a_product(noon, id_)
    a_product(noon, 6, is_active=False)
    a_product(noon, 7, name=" ", category="", text="\n")
    assert ids(changed(noon, PROFILE, 100)) == [1, 2, 3, 4, 5]
    assert changed(noon, PROFILE, 100)[0].text == "두부 1\n식품\n부드럽다"
    assert embed_all(noon) == 5
    assert changed(noon, PROFILE, 100) == []
    noon.execute("UPDATE rec.product SET text = '단단하다' WHERE id = 2")
    noon.execute("UPDATE rec.product SET category = '간식' WHERE id = 3")
    noon.execute("UPDATE rec.product SET created_at = granary.now() WHERE id = 4")
    noon.execute("UPDATE rec.product SET is_active = true WHERE id = 6")
    assert ids(changed(noon, PROFILE, 100)) == [2, 3, 6]
    assert ids(changed(noon, OTHER, 100)) == [1, 2, 3, 4, 5, 6]
    noon.execute("UPDATE rec.product SET text = '부드럽다' WHERE id = 2")
    assert ids(changed(noon, PROFILE, 100)) == [3, 6]


def texts_read(connection: psycopg.Connection) -> list[int]:
    """The products whose text goes over the wire to find out what is to be embedded."""
    parameters = {"profile": PROFILE, "after": 0, "limit": 100, "version": TEXT_VERSION}
    return [row[0] for row in connection.execute(product_store.SQL["products_after"], parameters)]


def test_texts_that_have_not_changed_stay_in_the_database(noon: psycopg.Connection) -> None:
    for id_ in range(1, 6):
        a_product(noon, id_)
    assert texts_read(noon) == [1, 2, 3, 4, 5]
    *products, refused = changed(noon, PROFILE, 100)
    store(noon, [(one, a_vector(1)) for one in products], PROFILE)
    product_store.refuse(noon, refused, PROFILE, "content_filter")
    assert texts_read(noon) == []
    noon.execute("UPDATE rec.product SET name = category, category = name WHERE id = 2")
    noon.execute("UPDATE rec.product SET text = '단단하다' WHERE id IN (4, 5)")
    assert texts_read(noon) == [2, 4, 5]


def test_texts_that_say_the_same_in_other_words_are_read_once(noon: psycopg.Connection) -> None:
    a_product(noon, 1)
    a_product(noon, 2)
    first, second = changed(noon, PROFILE, 100)
    store(noon, [(first, a_vector(1))], PROFILE)
    product_store.refuse(noon, second, PROFILE, "content_filter")
    noon.execute("UPDATE rec.product SET text = text || ' '")
    assert texts_read(noon) == [1, 2]
    assert changed(noon, PROFILE, 100) == []
    assert texts_read(noon) == []


def test_another_version_of_what_is_embedded_is_compared_text_by_text(
    noon: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_product(noon, 1)
    embed_all(noon)
    monkeypatch.setattr(product_store, "TEXT_VERSION", "another")
    assert changed(noon, PROFILE, 100) == []
    monkeypatch.setattr(product_store, "TEXT_VERSION", "a third")
    monkeypatch.setattr(product_store, "embedded_text", lambda name, category, text: name)
    assert [one.text for one in changed(noon, PROFILE, 100)] == ["두부 1"]


def test_what_is_to_be_embedded_is_found_part_by_part_however_far_apart(noon: psycopg.Connection) -> None:
    noon.execute(
        "INSERT INTO rec.product (id, name, category, text) SELECT id, '두부', '식품', ''"
        " FROM generate_series(1, %s) AS id",
        (2 * READ_AT_ONCE + 5,),
    )
    products = changed(noon, PROFILE, 10_000)
    assert ids(products) == list(range(1, 2 * READ_AT_ONCE + 6))
    text = products[0].text_hash
    noon.execute(
        "INSERT INTO rec.product_embedding"
        " SELECT id, array_fill(1, ARRAY[1536])::vector, %s, %s, granary.now()"
        " FROM rec.product WHERE id NOT IN (3, 2004)",
        (PROFILE, text),
    )
    assert ids(changed(noon, PROFILE, 1)) == [3]
    assert ids(changed(noon, PROFILE, 1, after=3)) == [2_004]
    assert changed(noon, PROFILE, 1, after=2_004) == []


def test_a_vector_of_a_text_that_changed_meanwhile_is_thrown_away(noon: psycopg.Connection) -> None:
    a_product(noon, 1)
    a_product(noon, 2)
    a_product(noon, 3)
    products = changed(noon, PROFILE, 100)
    noon.execute("UPDATE rec.product SET text = '단단하다' WHERE id = 2")
    noon.execute("DELETE FROM rec.product WHERE id = 3")
    assert store(noon, [(one, a_vector(1)) for one in products], PROFILE) == 1
    assert rows(noon, "SELECT product_id, profile FROM rec.product_embedding") == [
        {"product_id": 1, "profile": PROFILE}
    ]


def test_a_text_cannot_change_while_its_vector_is_stored(connect: Connect) -> None:
    noon, application = connect(at=at(NOON)), connect()
    a_product(noon, 1)
    product = changed(noon, PROFILE, 1)[0]
    noon.execute("BEGIN")
    assert store(noon, [(product, a_vector(1))], PROFILE) == 1
    change = "UPDATE rec.product SET text = '단단하다' WHERE id = 1"
    with waiting_for(noon, connect(), lambda: application.execute(change)):
        noon.execute("COMMIT")
    assert ids(changed(noon, PROFILE, 1)) == [1]


def test_the_catalogue_has_every_product_with_its_vector_or_zeros(noon: psycopg.Connection) -> None:
    for id_ in (5, 3, 9):
        a_product(noon, id_, category=f"분류 {id_}", is_active=id_ != 9)
    noon.execute("UPDATE rec.product SET is_active = true")
    embed_all(noon, a_vector(3, 4))
    noon.execute("UPDATE rec.product SET is_active = false WHERE id = 9")
    noon.execute("UPDATE rec.product_embedding SET profile = %s WHERE product_id = 5", (OTHER,))
    found = product_store.catalogue(noon, PROFILE)
    assert found.product_ids.tolist() == [3, 5, 9]
    assert found.categories.tolist() == ["분류 3", "분류 5", "분류 9"]
    assert found.is_active.tolist() == [True, True, False]
    assert found.vectors.shape == (3, 1_536)
    assert found.vectors[:, :2].tolist() == pytest.approx(np.array([[0.6, 0.8], [0, 0], [0.6, 0.8]]))
    arrays = (found.product_ids, found.is_active, found.vectors, found.popularity)
    assert [str(one.dtype) for one in arrays] == ["int64", "bool", "float32", "float64"]


def test_a_catalogue_without_products_is_empty(noon: psycopg.Connection) -> None:
    found = product_store.catalogue(noon, PROFILE)
    assert (found.product_ids.shape, found.vectors.shape, found.popularity.shape) == ((0,), (0, 1_536), (0,))


def test_popularity_halves_in_seven_days_and_counts_nothing_of_the_future(noon: psycopg.Connection) -> None:
    for id_ in range(1, 6):
        a_product(noon, id_)
    an_event(noon, 1, 1, weight=2, occurred_at=NOON)
    an_event(noon, 2, 1, weight=2, occurred_at=NOON - 7 * DAY)
    an_event(noon, 3, 1, weight=2, occurred_at=NOON - 14 * DAY)
    an_event(noon, 1, 2, weight=2, occurred_at=NOON + timedelta(microseconds=1))
    an_event(noon, 1, 3, weight=2, occurred_at=NOON - 71 * DAY)
    an_event(noon, 1, 99, weight=2)
    for moment in ("infinity", "-infinity"):
        noon.execute(
            "INSERT INTO rec.member_event (member_id, product_id, kind, occurred_at)"
            " VALUES (1, 4, 'view', %s)",
            (moment,),
        )
    for member_id in (1, 2, 3):
        an_event(noon, member_id, 5, weight=1.7e308, occurred_at=NOON)
    assert product_store.catalogue(noon, PROFILE).popularity.tolist() == pytest.approx([3.5, 0, 0, 0, 3e6])


def test_a_history_is_what_the_member_did_lately_newest_first(noon: psycopg.Connection) -> None:
    an_event(noon, 1, 5, "purchase", 3, NOON - DAY)
    an_event(noon, 1, 6, "like", 2, NOON - HOUR)
    an_event(noon, 1, 7, "view", 1, NOON - 181 * DAY)
    an_event(noon, 1, 8, "view", 1, NOON + DAY)
    an_event(noon, 1, 9, "view", 1e300, NOON - 2 * DAY)
    an_event(noon, 2, 5)
    found = product_store.history(noon, 1, GenerationType.G1)
    assert [(one.product_id, one.kind, one.weight, one.occurred_at) for one in found.events] == [
        (6, EventKind.LIKE, 2, NOON - HOUR),
        (5, EventKind.PURCHASE, 3, NOON - DAY),
        (9, EventKind.VIEW, 1e6, NOON - 2 * DAY),
    ]
    assert (found.member_id, found.opted_out, found.wanted) == (1, False, GenerationType.G1)
    assert len(product_store.history(noon, 1, days=200).events) == 4


def test_what_was_bought_lately_is_known_however_much_was_done_since(noon: psycopg.Connection) -> None:
    an_event(noon, 1, 5, "purchase", 3, NOON - 5 * DAY)
    an_event(noon, 1, 6, "purchase", 3, NOON - 32 * DAY)
    an_event(noon, 1, 7, "view", 3, NOON - 5 * DAY)
    noon.execute(
        "INSERT INTO rec.member_event (member_id, product_id, kind, occurred_at)"
        " SELECT 1, 8, 'view', granary.now() - number * interval '1 second'"
        " FROM generate_series(1, %s) AS number",
        (MOST_EVENTS,),
    )
    events = product_store.history(noon, 1).events
    assert len(events) == MOST_EVENTS + 1
    assert events[-1] == Event(5, EventKind.PURCHASE, 0, NOON - 5 * DAY)


@pytest.mark.parametrize("moment", [at(NOON + timedelta(seconds=2)), "infinity"])
def test_what_was_bought_a_little_ahead_of_the_clock_is_known_and_tells_no_taste_yet(
    noon: psycopg.Connection, moment: str
) -> None:
    for kind, product_id in (("purchase", 5), ("purchase", 5), ("view", 6)):
        noon.execute(
            "INSERT INTO rec.member_event (member_id, product_id, kind, occurred_at) VALUES (1, %s, %s, %s)",
            (product_id, kind, moment),
        )
    an_event(noon, 2, 7, "purchase", 1, NOON + HOUR)
    assert product_store.history(noon, 1).events == [Event(5, EventKind.PURCHASE, 0, NOON)]


def test_who_did_nothing_has_a_history_without_events(noon: psycopg.Connection) -> None:
    noon.execute("INSERT INTO rec.member_opt_out (member_id) VALUES (2)")
    assert [product_store.history(noon, id_).events for id_ in (1, 2)] == [[], []]
    assert [product_store.history(noon, id_).opted_out for id_ in (1, 2)] == [False, True]
