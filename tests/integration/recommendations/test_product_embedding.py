"""Vectors of products from the stand-in: only of changed texts, and what becomes of calls that fail."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from pydantic import PrivateAttr

from assets.recommendations import product_store
from assets.recommendations.product_embedding import EmbedCounts, embed_products
from resources import gate
from resources.alerts import AlertResource
from resources.embeddings import EmbeddingResource
from resources.errors import ModelHasNoPrice
from resources.model_gate import ModelGate
from resources.openai_api import ApiUnavailable
from resources.spending import Usage
from tests.integration.recommendations.factories import HOUR, NOON, PROFILE, Connect, a_product, at, rows
from tests.integration.resources.asking import KEY
from tests.integration.stand_ins import StandIn


@pytest.fixture
def three_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.embeddings.MAX_INPUTS", 3)


class WatchedEmbeddings(EmbeddingResource):
    """The real client; the hook is called before each request."""

    _before: Callable[[Sequence[str]], object] | None = PrivateAttr(default=None)

    def before(self, hook: Callable[[Sequence[str]], object]) -> "WatchedEmbeddings":
        self._before = hook
        return self

    def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], Usage]:
        if self._before is not None:
            self._before(texts)
        return super().embed(texts)


def embeddings_of(api: StandIn, **changes: Any) -> WatchedEmbeddings:
    given = {"model": "text-embedding-3-small", "base_url": f"{api.url}/v1", "api_key": KEY, **changes}
    return WatchedEmbeddings(timeout_ms=20_000, **given)


def embed(
    connection: psycopg.Connection, embeddings: EmbeddingResource, cap_usd: Decimal | None = None
) -> EmbedCounts:
    model_gate = ModelGate(connection, embeddings.gate_key, AlertResource(), 30)
    return embed_products(connection, embeddings, model_gate, cap_usd, PROFILE)


def calls(api: StandIn) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = api.get("ledger")["entries"]
    return entries


def embedded(connection: psycopg.Connection) -> list[int]:
    found = rows(connection, "SELECT product_id FROM rec.product_embedding ORDER BY product_id")
    return [row["product_id"] for row in found]


def reserved(connection: psycopg.Connection) -> Decimal:
    found = rows(connection, "SELECT reserved_usd FROM granary.spending_day")
    return Decimal(found[0]["reserved_usd"]) if found else Decimal(0)


def test_only_changed_texts_are_paid_for(noon: psycopg.Connection, openai_api: StandIn) -> None:
    embeddings = embeddings_of(openai_api)
    for id_ in range(1, 8):
        a_product(noon, id_)
    asked: list[Sequence[str]] = []
    embeddings.before(asked.append)
    assert embed(noon, embeddings) == EmbedCounts(embedded=7)
    assert [len(texts) for texts in asked] == [7]
    assert embed(noon, embeddings) == EmbedCounts()
    noon.execute("UPDATE rec.product SET text = '단단하다' WHERE id = 4")
    noon.execute("UPDATE rec.product SET is_active = false WHERE id = 5")
    assert embed(noon, embeddings) == EmbedCounts(embedded=1)
    assert asked[1:] == [["두부 4\n식품\n단단하다"]]
    assert len(calls(openai_api)) == 2
    assert (embedded(noon), reserved(noon)) == (list(range(1, 8)), Decimal(0))
    spent = rows(noon, "SELECT pipeline, calls, cost_usd FROM granary.spending")
    paid = sum(Decimal(str(call["cost_usd"])) for call in calls(openai_api))
    assert spent == [{"pipeline": "recommendations", "calls": 2, "cost_usd": paid}]


def test_a_text_that_is_not_taken_is_found_by_halves_and_keeps_nobody_waiting(
    noon: psycopg.Connection, openai_api: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    for id_ in range(1, 10):
        a_product(noon, id_, text="못된 말" if id_ in (3, 8) else "부드럽다")
    openai_api.fault(contains="못된", status=400, code="content_filter")
    embeddings = embeddings_of(openai_api)
    asked: list[str] = []
    embeddings.before(asked.extend)
    assert embed(noon, embeddings) == EmbedCounts(embedded=7, skipped=2)
    assert embedded(noon) == [1, 2, 4, 5, 6, 7, 9]
    assert reserved(noon) == 0
    assert "못된" not in caplog.text
    openai_api.clear_faults()
    asked.clear()
    assert embed(noon, embeddings) == EmbedCounts()
    assert asked == []


def test_a_text_that_was_refused_is_asked_about_again_once_it_is_another(
    noon: psycopg.Connection, openai_api: StandIn
) -> None:
    a_product(noon, 1, text="못된 말")
    openai_api.fault(contains="못된", status=400, code="content_filter")
    embeddings = embeddings_of(openai_api)
    assert embed(noon, embeddings) == EmbedCounts(skipped=1)
    assert embed(noon, embeddings) == EmbedCounts()
    noon.execute("UPDATE rec.product SET text = '고운 말'")
    assert embed(noon, embeddings) == EmbedCounts(embedded=1)
    assert embedded(noon) == [1]


def test_an_error_that_may_pass_is_raised_and_what_was_paid_is_kept(
    noon: psycopg.Connection, openai_api: StandIn, three_a_request: None
) -> None:
    for id_ in range(1, 9):
        a_product(noon, id_)
    openai_api.fault(endpoint="embeddings", status=503, skip=1, times=1)
    embeddings = embeddings_of(openai_api)
    asked: list[str] = []
    embeddings.before(asked.extend)
    with pytest.raises(ApiUnavailable):
        embed(noon, embeddings)
    assert embedded(noon) == [1, 2, 3]
    asked.clear()
    assert embed(noon, embeddings) == EmbedCounts(embedded=5)
    assert len(asked) == 5


@pytest.mark.parametrize("code", ["insufficient_quota", "invalid_api_key", "model_not_found"])
def test_an_error_that_hits_everyone_shuts_the_gate_and_nothing_more_is_asked(
    code: str, noon: psycopg.Connection, openai_api: StandIn
) -> None:
    for id_ in range(1, 5):
        a_product(noon, id_)
    openai_api.fault(endpoint="embeddings", status=429, code=code)
    embeddings = embeddings_of(openai_api)
    asked: list[Sequence[str]] = []
    embeddings.before(asked.append)
    found = embed(noon, embeddings)
    assert found.stopped_by in ("QUOTA", "AUTH", "MODEL")
    assert embed(noon, embeddings).stopped_by == found.stopped_by
    assert (len(asked), embedded(noon)) == (1, [])
    assert len(rows(noon, "SELECT * FROM granary.alert")) == 1


def test_a_due_probe_asks_about_one_text_and_the_rest_after_its_answer(
    connect: Connect, openai_api: StandIn
) -> None:
    noon = connect(at=at(NOON))
    for id_ in range(1, 5):
        a_product(noon, id_)
    embeddings = embeddings_of(openai_api)
    gate.shut(noon, embeddings.gate_key, "QUOTA", "no money", 30)
    asked: list[int] = []
    embeddings.before(lambda texts: asked.append(len(texts)))
    assert embed(noon, embeddings).stopped_by == "QUOTA"
    later = connect(at=at(NOON + HOUR))
    assert embed(later, embeddings) == EmbedCounts(embedded=4)
    assert asked == [1, 3]
    assert gate.read(later, embeddings.gate_key) is None


def test_a_probe_with_nothing_to_ask_is_given_back(connect: Connect, openai_api: StandIn) -> None:
    embeddings = embeddings_of(openai_api)
    gate.shut(connect(at=at(NOON)), embeddings.gate_key, "QUOTA", "no money", 30)
    later = connect(at=at(NOON + HOUR))
    assert embed(later, embeddings) == EmbedCounts()
    shut = gate.read(later, embeddings.gate_key)
    assert shut is not None and shut.probe_is_due


def test_the_days_cap_stops_before_the_call_that_may_pass_it(
    noon: psycopg.Connection, openai_api: StandIn, three_a_request: None
) -> None:
    for id_ in range(1, 9):
        a_product(noon, id_, text="고소하고 담백한 국산 콩 " * 20)
    embeddings = embeddings_of(openai_api)
    texts = [one.text for one in product_store.changed(noon, PROFILE, 3)]
    request = embeddings.priced_model.most_it_can_cost_usd(embeddings.most_input_tokens(texts), 0)
    asked: list[str] = []
    embeddings.before(asked.extend)
    # All are of one length: what the first has really cost leaves no room for the most that the second can.
    assert embed(noon, embeddings, cap_usd=request).stopped_by == "BUDGET"
    assert (len(asked), embedded(noon)) == (3, [1, 2, 3])
    assert reserved(noon) == 0
    assert embed(noon, embeddings, cap_usd=Decimal(100)).stopped_by == "BUDGET"
    gate.open_(noon, embeddings.gate_key)
    assert embed(noon, embeddings, cap_usd=Decimal(100)).embedded == 5


def test_texts_that_no_day_can_pay_together_are_asked_about_in_halves(
    noon: psycopg.Connection, openai_api: StandIn
) -> None:
    for id_ in range(1, 5):
        a_product(noon, id_)
    embeddings = embeddings_of(openai_api)
    texts = [one.text for one in product_store.changed(noon, PROFILE, 4)]
    together = embeddings.priced_model.most_it_can_cost_usd(embeddings.most_input_tokens(texts), 0)
    asked: list[int] = []
    embeddings.before(lambda texts: asked.append(len(texts)))
    assert embed(noon, embeddings, cap_usd=together * Decimal("0.95")) == EmbedCounts(embedded=4)
    assert asked == [2, 2]


def test_without_any_money_nothing_is_asked(noon: psycopg.Connection, openai_api: StandIn) -> None:
    a_product(noon, 1)
    a_product(noon, 2)
    assert embed(noon, embeddings_of(openai_api), cap_usd=Decimal(0)) == EmbedCounts(stopped_by="BUDGET")
    assert (calls(openai_api), embedded(noon)) == ([], [])


def test_a_model_without_a_price_is_not_asked(noon: psycopg.Connection, openai_api: StandIn) -> None:
    a_product(noon, 1)
    with pytest.raises(ModelHasNoPrice):
        embed(noon, embeddings_of(openai_api, model="nobody-knows-it"))
    assert calls(openai_api) == []


def test_a_text_that_changes_during_the_call_is_asked_about_again(
    noon: psycopg.Connection, connect: Connect, openai_api: StandIn
) -> None:
    a_product(noon, 1)
    a_product(noon, 2)
    application = connect()
    embeddings = embeddings_of(openai_api)
    change = "UPDATE rec.product SET text = '단단하다' WHERE id = 2"
    embeddings.before(lambda texts: application.execute(change))
    assert embed(noon, embeddings) == EmbedCounts(embedded=1, changed_meanwhile=1)
    assert embed(noon, embeddings) == EmbedCounts(embedded=1)
    assert embed(noon, embeddings) == EmbedCounts()
