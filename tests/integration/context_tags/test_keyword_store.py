"""Storing judgements: only into a stage that is ours still, as a set, with what no keyword covered."""

import json
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import psycopg
import pytest

from assets.context_tags import keyword_store
from assets.context_tags.models import Judgement, KeywordResult, Selection
from assets.context_tags.unstorable import Unstorable
from tests.integration.context_tags.store_rows import (
    Waiting,
    all_rows,
    judged,
    put_all_states,
    put_preset,
    put_state,
    states_of,
    tokens_of,
)

Connection = psycopg.Connection
SECRET = "할머니의 병원"


@pytest.fixture(autouse=True)
def presets(connection: Connection) -> None:
    put_preset(connection, 101, 102, 203)


def store(connection: Connection, *results: KeywordResult) -> set[int]:
    return keyword_store.store(connection, results, 4)


def test_keywords_are_stored_only_where_the_embedding_is_there_and_their_stage_is_processing(
    connection: Connection,
) -> None:
    before = put_all_states(connection)
    tokens = tokens_of(connection)
    expected = {id_ for id_, state in before.items() if state == ("COMPLETED", "PROCESSING")}
    assert store(connection, *(judged(id_, token, 101) for id_, token in tokens.items())) == expected
    assert {row[0] for row in all_rows(connection, "ai.context_keyword")} == expected
    assert {row[0] for row in all_rows(connection, "ai.context_keyword_analysis")} == expected
    assert states_of(connection) == {
        id_: ("COMPLETED", "COMPLETED") if id_ in expected else state for id_, state in before.items()
    }


def test_keywords_replace_those_that_were_there(connection: Connection) -> None:
    token = put_state(connection, 1, embedding="COMPLETED", keyword="PROCESSING")[1]
    store(connection, judged(1, token, 101, 102, concepts=["치킨"]))
    token = put_state(connection, 1, embedding="COMPLETED", keyword="PROCESSING")[1]
    judgement = Judgement((Selection(203, 0.12345), Selection(102, None)), ("한강", "야경"), "gpt-new")
    assert keyword_store.store(connection, [KeywordResult(1, token, judgement)], 5) == {1}
    assert all_rows(connection, "ai.context_keyword") == [(1, 102, None, 5), (1, 203, Decimal("0.123"), 5)]
    ((*analysis, _),) = all_rows(connection, "ai.context_keyword_analysis")
    assert analysis == [1, 5, ["한강", "야경"], "gpt-new"]


def test_no_keyword_at_all_is_a_normal_end_with_an_analysis(connection: Connection) -> None:
    tokens = put_state(connection, 1, 2, embedding="COMPLETED", keyword="PROCESSING")
    results = [KeywordResult(id_, token, Judgement()) for id_, token in tokens.items()]
    assert store(connection, *results) == {1, 2}
    assert all_rows(connection, "ai.context_keyword") == []
    assert [row[:4] for row in all_rows(connection, "ai.context_keyword_analysis")] == [
        (1, 4, [], None),
        (2, 4, [], None),
    ]
    assert set(states_of(connection).values()) == {("COMPLETED", "COMPLETED")}


def test_confidences_are_kept_from_none_to_all(connection: Connection) -> None:
    token = put_state(connection, 1, embedding="COMPLETED", keyword="PROCESSING")[1]
    selected = (Selection(101, 0.0), Selection(102, 1.0), Selection(203, 0.9996))
    store(connection, KeywordResult(1, token, Judgement(selected)))
    assert [row[2] for row in all_rows(connection, "ai.context_keyword")] == [0, 1, 1]


def test_a_model_with_a_very_long_name_is_shortened_to_its_column(connection: Connection) -> None:
    token = put_state(connection, 1, embedding="COMPLETED", keyword="PROCESSING")[1]
    assert store(connection, KeywordResult(1, token, Judgement(model="m" * 300))) == {1}
    assert all_rows(connection, "ai.context_keyword_analysis")[0][3] == "m" * 100


def test_a_judgement_with_an_old_token_is_discarded_and_what_was_there_stays(connection: Connection) -> None:
    token = put_state(connection, 1, embedding="COMPLETED", keyword="PROCESSING")[1]
    store(connection, judged(1, token, 101))
    token = put_state(connection, 1, embedding="COMPLETED", keyword="PROCESSING")[1]
    assert store(connection, judged(1, token - timedelta(microseconds=1), 102)) == set()
    assert [row[1] for row in all_rows(connection, "ai.context_keyword")] == [101]
    assert states_of(connection) == {1: ("COMPLETED", "PROCESSING")}


def test_a_context_cancelled_while_its_store_waits_keeps_no_keyword(
    connect: Callable[..., Connection],
) -> None:
    core, worker, witness = connect(), connect(), connect()
    tokens = put_state(core, 1, 2, embedding="COMPLETED", keyword="PROCESSING")
    with core.transaction():
        core.execute("UPDATE ai.context_ai_state SET keyword_status = 'CANCELLED' WHERE context_id = 1")
        stored = Waiting(worker, lambda: store(worker, *(judged(id_, tokens[id_], 101) for id_ in (1, 2))))
        stored.waits_for_a_lock(witness)
    assert stored.result() == {2}
    assert [row[0] for row in all_rows(core, "ai.context_keyword_analysis")] == [2]
    assert states_of(core)[1] == ("COMPLETED", "CANCELLED")


UNSTORABLE = [
    pytest.param(Judgement((Selection(999, 0.5),), (SECRET,)), "23503", id="a preset that is not there"),
    pytest.param(Judgement((Selection(101, 1.5),), (SECRET,)), "23514", id="a confidence above 1"),
    pytest.param(Judgement((Selection(101), Selection(101)), (SECRET,)), "23505", id="a keyword twice"),
    pytest.param(Judgement((), (SECRET + "\0",)), "22P05", id="NUL"),
    pytest.param(Judgement((), (SECRET + "\ud800",)), "22P02", id="a lone surrogate"),
]


@pytest.mark.parametrize(("judgement", "sqlstate"), UNSTORABLE)
def test_what_cannot_be_stored_stops_its_batch_whole_and_no_error_quotes_it(
    connection: Connection, judgement: Judgement, sqlstate: str
) -> None:
    tokens = put_state(connection, 1, 2, embedding="COMPLETED", keyword="PROCESSING")
    with pytest.raises(Unstorable) as refused:
        store(connection, judged(1, tokens[1], 101), KeywordResult(2, tokens[2], judgement))
    error = refused.value
    assert error.sqlstate == sqlstate
    told = f"{error!r} {error} {error.args} {vars(error)}"
    assert SECRET not in told
    assert json.dumps(SECRET)[1:9] not in told
    assert error.__cause__ is None
    assert error.__suppress_context__
    assert all_rows(connection, "ai.context_keyword_analysis") == []
    assert set(states_of(connection).values()) == {("COMPLETED", "PROCESSING")}
    assert store(connection, judged(1, tokens[1], 101)) == {1}
