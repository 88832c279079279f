"""Nobody waits in a circle: whoever locks many contexts takes them in the order of their ids."""

from collections.abc import Callable, Mapping
from datetime import datetime

import psycopg
import pytest

from assets.context_tags import (
    embedding_store,
    erasure_store,
    keyword_store,
    request_store,
    rescan_store,
    state_store,
)
from assets.context_tags.models import DEFAULT_PROFILE, Stage
from tests.integration.context_tags.store_rows import (
    Waiting,
    ask,
    judged,
    made_vector,
    put_embedding,
    put_preset,
    put_state,
    tokens_of,
    vector,
)

Connection = psycopg.Connection
Connect = Callable[..., Connection]
IDS = [9, 3, 7, 1, 5]

Act = Callable[[Connection, Mapping[int, datetime]], object]

STATES: dict[str, tuple[str, str, Act]] = {
    "start embedding": (
        "PENDING",
        "PENDING",
        lambda connection, tokens: state_store.start(connection, Stage.EMBEDDING, IDS, 600),
    ),
    "start keyword": (
        "COMPLETED",
        "PENDING",
        lambda connection, tokens: state_store.start(connection, Stage.KEYWORD, IDS, 600),
    ),
    "fail embedding": (
        "PROCESSING",
        "PENDING",
        lambda connection, tokens: state_store.fail(connection, Stage.EMBEDDING, tokens),
    ),
    "fail keyword": (
        "COMPLETED",
        "PROCESSING",
        lambda connection, tokens: state_store.fail(connection, Stage.KEYWORD, tokens),
    ),
    "store vectors": (
        "PROCESSING",
        "PENDING",
        lambda connection, tokens: embedding_store.store(
            connection, [made_vector(id_, tokens[id_]) for id_ in IDS], DEFAULT_PROFILE
        ),
    ),
    "store keywords": (
        "COMPLETED",
        "PROCESSING",
        lambda connection, tokens: keyword_store.store(
            connection, [judged(id_, tokens[id_], 101) for id_ in IDS], 1
        ),
    ),
    "erase": ("PENDING", "PENDING", lambda connection, tokens: erasure_store.erase_user(connection, 1)),
    "resend": ("PENDING", "PENDING", lambda connection, tokens: rescan_store.resend(connection)),
    "finalise": ("PENDING", "PENDING", lambda connection, tokens: rescan_store.finalise(connection)),
}
REQUESTS: dict[str, Act] = {
    "handled": lambda connection, tokens: request_store.handled(
        connection, sorted(request_store.waiting(connection, None, 9), key=lambda one: -one.context_id)
    ),
    "forget": lambda connection, tokens: request_store.forget(connection),
    "erase": lambda connection, tokens: erasure_store.erase_user(connection, 1),
    "resend": lambda connection, tokens: rescan_store.resend(connection),
}


def prepare(connection: Connection, embedding: str, keyword: str, retries: int = 0) -> dict[int, datetime]:
    """Contexts of user 1 that were written, and lie, in no order."""
    put_preset(connection, 101)
    for id_ in IDS:
        put_state(connection, id_, embedding=embedding, keyword=keyword, minutes_ago=8, retries=retries)
        put_embedding(connection, id_, vector(0.0, 1.0))
        request_store.accept(connection, ask(id_), None, "hmac", False)
    connection.execute("UPDATE granary.context_request SET requested_at = now() - interval '8 minutes'")
    return {id_: tokens_of(connection)[id_] for id_ in IDS}


def locks_in_order(connect: Connect, table: str, act: Callable[[Connection], object]) -> list[int]:
    """Which rows it has locked when it waits for context 5: those before it, and none after."""
    blocker, actor, witness = connect(), connect(), connect()
    probe = psycopg.sql.SQL("SELECT context_id FROM {} ORDER BY context_id FOR UPDATE SKIP LOCKED").format(
        psycopg.sql.Identifier(*table.split("."))
    )
    with blocker.transaction():
        blocker.execute(
            psycopg.sql.SQL("SELECT FROM {} WHERE context_id = 5 FOR UPDATE").format(
                psycopg.sql.Identifier(*table.split("."))
            )
        )
        acting = Waiting(actor, lambda: act(actor))
        acting.waits_for_a_lock(witness)
        free = {id_ for (id_,) in witness.execute(probe)}
    acting.result()
    return sorted(set(IDS) - free - {5})


@pytest.mark.parametrize("action", STATES)
def test_states_are_locked_in_the_order_of_their_ids(connect: Connect, action: str) -> None:
    embedding, keyword, act = STATES[action]
    tokens = prepare(connect(), embedding, keyword, retries=3 if action == "finalise" else 0)
    locked = locks_in_order(connect, "ai.context_ai_state", lambda connection: act(connection, tokens))
    assert locked == [1, 3]


@pytest.mark.parametrize("action", REQUESTS)
def test_requests_are_locked_in_the_order_of_their_ids(connect: Connect, action: str) -> None:
    state = "COMPLETED" if action == "forget" else "PENDING"
    tokens = prepare(connect(), state, state)
    locked = locks_in_order(
        connect, "granary.context_request", lambda connection: REQUESTS[action](connection, tokens)
    )
    assert locked == [1, 3]


def test_an_erasure_a_store_and_a_rescan_that_meet_all_come_to_their_end(connect: Connect) -> None:
    """Each waits for the state of context 5 and holds what it locked before."""
    connection = connect()
    tokens = prepare(connection, "PROCESSING", "PENDING")
    connection.execute("UPDATE ai.context_ai_state SET updated_at = updated_at - interval '1 hour'")
    tokens = {id_: token for id_, token in tokens_of(connection).items() if id_ in tokens}
    acts: list[Callable[[Connection], object]] = [
        lambda actor: erasure_store.erase_user(actor, 1),
        lambda actor: rescan_store.resend(actor),
        lambda actor: STATES["store vectors"][2](actor, tokens),
        lambda actor: request_store.forget(actor),
        lambda actor: state_store.start(actor, Stage.EMBEDDING, IDS, 600),
    ]
    with connection.transaction():
        connection.execute("SELECT FROM ai.context_ai_state WHERE context_id = 5 FOR UPDATE")
        acting = []
        for act in acts:
            actor = connect()
            acting.append(Waiting(actor, lambda act=act, actor=actor: act(actor)))  # type: ignore[misc]
        acting[0].waits_for_a_lock(connection)
    for one in acting:
        one.result()
