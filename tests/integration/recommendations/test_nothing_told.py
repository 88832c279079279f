"""No key, no product's text and no vector is told: in no event, metadata, log, alarm or queue item."""

import logging
from typing import Any

import psycopg
import pytest

from tests.integration.job_runs import DAY, NOON
from tests.integration.recommendations.factories import Connect, a_product, items
from tests.integration.recommendations.recommendation_runs import (
    MEMBERS_JOB,
    PRODUCTS_JOB,
    RecommendationRuns,
    due,
    products,
)
from tests.integration.resources.asking import KEY
from tests.integration.stand_ins import StandIn

CANARY = "kanarienvogel"  # ASCII: no way of writing it down hides it
REFUSAL = {"status": 400, "message": f"what is that: {CANARY} {KEY}", "code": f"{CANARY} is no code"}
FAULTS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a refused text": REFUSAL,
    "a refused key": {**REFUSAL, "status": 401},
    "a broken server": {**REFUSAL, "status": 500},
    "vectors that are none": {"vector": "nan"},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_text_and_no_key_is_told(
    fault: str,
    database_url: str,
    openai_api: StandIn,
    connect: Connect,
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs, noon = RecommendationRuns(database_url, openai_api), connect(at=NOON.isoformat())
    products(noon, 1)
    a_product(noon, 2, text=CANARY)
    due(noon, 1)
    if FAULTS[fault]:
        openai_api.fault(endpoint="embeddings", **FAULTS[fault])
    for name, level in ((None, logging.INFO), ("granary", logging.DEBUG), ("openai", logging.DEBUG)):
        caplog.set_level(level, name)
    runs.run(PRODUCTS_JOB)
    assert runs.run(MEMBERS_JOB, DAY).success
    told = f"{runs.told()} {caplog.text} {items(noon)} {for_operators(noon)}"
    password = database_url.split(":")[2].split("@")[0]
    assert len(told) > 5_000
    for secret in (CANARY, KEY, password):
        assert secret not in told
    if fault == "nothing":
        vectors = noon.execute("SELECT embedding::real[] FROM rec.product_embedding").fetchall()
        assert len(vectors) == 2
        assert not any(str(vector[0])[:8] in told for (vector,) in vectors)


def for_operators(connection: psycopg.Connection) -> str:
    """What the tables for operators say."""
    names = b"granary.alert", b"granary.api_gate", b"granary.counter", b"granary.spending"
    return " ".join(repr(connection.execute(b"SELECT * FROM " + name).fetchall()) for name in names)
