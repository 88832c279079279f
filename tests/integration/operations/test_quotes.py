"""Quotes of all pipelines over rows as their stores leave them, and what a quote may not do."""

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from pymongo import MongoClient
from pymongo.database import Database

from assets.recipes import fetch_store, job_store
from assets.recipes.models import FetchedRow
from local_stack.mongo_server import MongoServer
from operations.quote import quote
from operations.quote_answer import Quote
from operations.quote_request import PIPELINES, NotAQuestion, QuoteRequest
from orchestration.settings import Settings
from resources import gate
from resources.errors import ServiceNotConfigured
from resources.openai_api import OpenAiResource
from tests.integration.mongo_fixture import running_mongo

DAY = date(2026, 11, 24)
NOON = "2026-11-25T12:00:00+09:00"
Mongo = Database[dict[str, Any]]


@pytest.fixture(scope="module")
def mongo_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MongoServer]:
    with running_mongo(tmp_path_factory.mktemp("mongo")) as server:
        yield server


@pytest.fixture
def mongo(mongo_server: MongoServer) -> Iterator[Mongo]:
    """An empty database with the indexes of the job records."""
    with MongoClient[dict[str, Any]](mongo_server.address, tz_aware=True) as client:
        client.drop_database("quotes")
        job_store.ensure_indexes(client["quotes"])
        yield client["quotes"]


@pytest.fixture
def now(connect: Callable[..., psycopg.Connection]) -> psycopg.Connection:
    """A connection on the day after DAY."""
    return connect(at=NOON)


def quoted(
    connection: psycopg.Connection, pipeline: str, mongo: Mongo | None = None, **settings: Any
) -> Quote:
    return quote(connection, mongo, Settings(**settings), QuoteRequest(pipeline, DAY, DAY))


def items(answer: Quote) -> dict[str, dict[str, int]]:
    """What is counted of each kind of work, without what is none."""
    return {work.what: {name: count for name, count in work.items.items() if count} for work in answer.works}


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_an_empty_database_has_nothing_to_do_and_says_so(
    pipeline: str, now: psycopg.Connection, mongo: Mongo
) -> None:
    answer = quoted(now, pipeline, mongo)
    assert (answer.items, answer.calls, answer.usd, answer.host_requests) == (0, 0, Decimal(0), 0)
    assert "it fits today" in "\n".join(answer.lines())
    assert answer.as_json()["cap_days"] == 1
    assert answer.markdown().startswith("**")


def test_a_day_that_has_not_begun_is_refused(now: psycopg.Connection) -> None:
    with pytest.raises(NotAQuestion, match="today is 2026-11-25"):
        quote(now, None, Settings(), QuoteRequest("economy_news", DAY, DAY + timedelta(days=2)))


def test_recipes_without_a_mongodb_name_the_setting(now: psycopg.Connection) -> None:
    with pytest.raises(ServiceNotConfigured, match="MONGODB_URI"):
        quoted(now, "recipes")


def test_a_shut_gate_and_the_days_that_the_cap_takes_are_told(now: psycopg.Connection) -> None:
    settings = Settings(daily_spending_cap_usd=Decimal("0.001"))
    key = OpenAiResource(model=settings.openai_embedding_model, base_url="").gate_key
    gate.shut(now, key, "QUOTA", "insufficient_quota", 30)
    texts = [("가" * 2_000,)] * 40
    now.cursor().executemany(
        "INSERT INTO rec.product (id, name, category, text) "
        "SELECT coalesce(max(id), 0) + 1, 'name', 'category', %s FROM rec.product",
        texts,
    )
    answer = quote(now, None, settings, QuoteRequest("recommendations", DAY, DAY))
    assert items(answer)["embed products"] == {"new or changed": 40}
    assert answer.calls == 1
    assert Decimal("0.0016") <= answer.usd <= Decimal("0.0017")
    told = "\n".join(answer.lines())
    assert "it takes 2 days" in told
    assert "QUOTA" in told and "the gate is open" not in told


def test_recipes_are_counted_by_where_their_records_stand(now: psycopg.Connection, mongo: Mongo) -> None:
    moment = now.execute("SELECT granary.now()").fetchone()
    assert moment is not None
    rows = [FetchedRow(str(number), {"RCP_NM": "두부조림"}, f"hash-{number}") for number in range(6)]
    fetch_store.store_fetched(mongo, "foodsafetykorea", DAY.isoformat(), rows, moment[0], False)
    for number, status in enumerate(("parse_submitted", "persisted", "failed")):
        mongo[job_store.JOBS].update_one({"source_id": str(number)}, {"$set": {"status": status}})
    answer = quoted(now, "recipes", mongo)
    assert items(answer) == {"parse": {"waiting": 3}, "embed": {"waiting": 1, "once parsed": 4}}
    told = "\n".join(answer.lines())
    assert "1 recipes are in batches already" in told and "1 are failed" in told
    assert "a built-in guess" in told


def test_a_day_that_was_never_fetched_counts_as_many_recipes_as_a_fetch_asks_for(
    now: psycopg.Connection, mongo: Mongo
) -> None:
    answer = quoted(now, "recipes", mongo, recipe_api_base_url="http://127.0.0.1:9", fetch_limit=1_500)
    assert items(answer)["parse"] == {"of days not fetched yet": 1_500}
    assert [(host.host, host.requests) for host in answer.hosts] == [("127.0.0.1:9", 2)]


def test_raw_files_count_files_and_front_pages(now: psycopg.Connection, mongo: Mongo) -> None:
    now.execute(
        "INSERT INTO raw.file "
        "(key, source, day, etag, size, status, seen_at, processed_at, reason, run_id) VALUES "
        "('a', 'kr/news', %(day)s, 'e', 1, 'PROCESSED', granary.now(), granary.now(), NULL, 'run'), "
        "('b', 'kr/news', %(day)s, 'e', 1, 'PENDING', granary.now(), NULL, NULL, NULL), "
        "('c', 'kr/shop', %(day)s, 'e', 1, 'FAILED', granary.now(), NULL, 'empty', 'run')",
        {"day": DAY},
    )
    now.execute(
        "INSERT INTO raw.domain (domain, first_seen_at) "
        "SELECT n || '.test', granary.now() FROM generate_series(1, 4) n"
    )
    now.execute(
        "INSERT INTO raw.domain_sighting (key, source, day, domain_id) "
        "SELECT 'a', 'kr/news', %s, id FROM raw.domain",
        (DAY,),
    )
    now.execute(
        "INSERT INTO raw.front_page (domain_id, status, fetched_at) "
        "SELECT min(id), 'FETCHED', granary.now() FROM raw.domain"
    )
    now.execute(
        "INSERT INTO raw.front_page (domain_id, status, reason, next_try_at) "
        "SELECT max(id), 'FAILED', 'timeout', granary.now() + interval '1 hour' FROM raw.domain"
    )
    everything = quoted(now, "raw_files")
    assert items(everything) == {"raw files": {"not processed": 2}}
    # Of the four domains one is fetched and one not due; two files with four new domains each are to come.
    assert [host.requests for host in everything.hosts] == [2 * (2 + 2 * 4)]
    one = quote(now, None, Settings(), QuoteRequest("raw_files", DAY, DAY, ("kr/news",), redo="all"))
    assert items(one) == {"raw files": {"not processed": 1, "to process again": 1}}
    assert quoted(now, "raw_files", fetch_metadata=False).hosts == []


def test_contexts_are_counted_by_the_stage_that_they_wait_for(now: psycopg.Connection) -> None:
    for id_, (embedding, keyword) in enumerate(
        [("PENDING", "PENDING"), ("COMPLETED", "PENDING"), ("COMPLETED", "COMPLETED"), ("FAILED", "PENDING")],
        1,
    ):
        now.execute(
            "INSERT INTO granary.context_request (context_id, user_id, record_id, text, text_hmac, "
            "requested_at, text_since) VALUES (%s, 1, 1, '가나다', 'x', %s, granary.now())",
            (id_, f"{DAY}T10:00:00Z"),
        )
        now.execute(
            "INSERT INTO ai.context_ai_state (context_id, embedding_status, keyword_status) "
            "VALUES (%s, %s, %s)",
            (id_, embedding, keyword),
        )
    answer = quoted(now, "context_tags")
    assert items(answer) == {"embed": {"waiting": 1}, "judge": {"waiting": 2}}
    assert (answer.works[0].calls, answer.works[0].input_tokens) == (1, 3)
