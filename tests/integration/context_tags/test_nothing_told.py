"""No text, no concept, no vector and no key is told: in no event, metadata, log, alarm or counter."""

import json
import logging
from typing import Any

import psycopg
import pytest

from assets.context_tags import request_store
from assets.context_tags.models import ContextRequest
from assets.context_tags.request_text import keyed_hash
from tests.integration.context_tags.context_runs import Connect, ContextRuns
from tests.integration.context_tags.paid_runs import near_presets, text_of
from tests.integration.context_tags.scenes import Core
from tests.integration.job_runs import NOON
from tests.integration.openai_clients import KEY
from tests.integration.stand_ins import StandIn

CANARY = "kanarienvogel"  # ASCII: no way of writing it down hides it
CHAT = {"endpoint": "chat/completions"}
REFUSAL = {"status": 400, "message": f"what is that: {CANARY} {KEY}", "code": f"{CANARY} is no code"}


def answer(**fields: Any) -> dict[str, Any]:
    """An answer of the model in these words."""
    return {**CHAT, "raw": json.dumps({"selected": [], "unmatchedConcepts": [], **fields})}


FAULTS: dict[str, dict[str, Any]] = {
    "nothing": answer(unmatchedConcepts=[CANARY]),
    "a keyword that was not offered": answer(selected=[{"keywordId": 999, "confidence": 0.5, CANARY: 1}]),
    "concepts that are none": answer(unmatchedConcepts=[f"{CANARY}\0", f"{CANARY}\ud800", CANARY * 50]),
    "an answer that is none": {**CHAT, "raw": f"{CANARY} {{"},
    "a refused answer": {**CHAT, "content": "refusal"},
    "a refused text": {"endpoint": "embeddings", **REFUSAL},
    "a refused question": {**CHAT, **REFUSAL},
    "a refused key": {**CHAT, **REFUSAL, "status": 401},
    "a broken server": {**CHAT, **REFUSAL, "status": 500},
    "vectors that are none": {"vector": "nan"},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_text_and_no_key_is_told(
    fault: str,
    database_url: str,
    openai_api: StandIn,
    core: Core,
    connect: Connect,
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs, noon = ContextRuns(database_url, openai_api), connect(at=NOON.isoformat())
    near_presets(core, openai_api.url)
    accept(core, noon, 1, 2)
    openai_api.fault(**FAULTS[fault])
    for name, level in ((None, logging.INFO), ("granary", logging.DEBUG), ("openai", logging.INFO)):
        caplog.set_level(level, name)
    runs.tag()
    runs.sensor("context_requests_waiting")
    runs.tag()
    told = runs.told() + caplog.text + stored_for_operators(noon)
    password = database_url.split(":")[2].split("@")[0]
    assert len(told) > 5_000
    for secret in (CANARY, KEY, password, text_of(1)):
        assert secret not in told
    if fault == "nothing":
        concepts = core.rows("SELECT unmatched_concepts FROM ai.context_keyword_analysis")
        assert [row["unmatched_concepts"] for row in concepts] == [[CANARY], [CANARY]]
        assert not any(str(vector[0])[:8] in told for vector in core.vectors().values())


@pytest.mark.parametrize("table", ["ai.context_embedding", "ai.context_keyword_analysis"])
def test_a_row_that_the_applications_tables_refuse_is_not_quoted(
    table: str,
    database_url: str,
    openai_api: StandIn,
    core: Core,
    connect: Connect,
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs, noon = ContextRuns(database_url, openai_api), connect(at=NOON.isoformat())
    near_presets(core, openai_api.url)
    accept(core, noon, 1, 2)
    noon.execute(f"ALTER TABLE {table} ADD CONSTRAINT never CHECK (context_id < 2)".encode())
    openai_api.fault(**answer(unmatchedConcepts=[CANARY]))
    result = runs.tag()
    assert result.success
    assert "FAILED" in core.state(2) and core.state(1) == ("COMPLETED", "COMPLETED")
    told = runs.told() + caplog.text + stored_for_operators(noon)
    assert "cannot_be_stored" in told
    assert CANARY not in told and not any(str(one[0])[:8] in told for one in core.vectors().values())


def accept(core: Core, connection: psycopg.Connection, *ids: int) -> None:
    """Posts texts that hold the canary, with a place that does."""
    core.add(*ids)
    for id_ in ids:
        said = f"{text_of(id_)} {CANARY}"
        place = {"name": CANARY}
        request_store.accept(
            connection, ContextRequest(id_, 1, 1, said), place, keyed_hash(said, b"k" * 16), False
        )


def stored_for_operators(connection: psycopg.Connection) -> str:
    """What the tables for operators say."""
    tables = ("granary.alert", "granary.api_gate", "granary.counter", "granary.spending")
    return " ".join(
        str(connection.execute(f"SELECT string_agg(row::text, ' ') FROM {table} AS row").fetchone())  # noqa: S608
        for table in tables
    )
