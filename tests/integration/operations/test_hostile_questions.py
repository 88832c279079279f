"""Generated names and days, asked of the real databases: an answer, or that nothing is known."""

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.database import Database

from local_stack.mongo_server import MongoServer
from operations.quote import quote
from operations.quote_request import PIPELINES, NotAQuestion, read_request
from operations.why import PIPELINES as BY_KIND
from operations.why import looked_for, why
from orchestration.settings import Settings
from tests.bad_inputs import bad_inputs
from tests.integration.mongo_fixture import running_mongo

Mongo = Database[dict[str, Any]]
# Nothing is written, so that one database serves all inputs.
on_one_database = settings(
    bad_inputs, suppress_health_check=[*HealthCheck], max_examples=bad_inputs.max_examples
)


@pytest.fixture(scope="module")
def mongo_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MongoServer]:
    with running_mongo(tmp_path_factory.mktemp("mongo")) as server:
        yield server


@pytest.fixture
def db(mongo_server: MongoServer) -> Iterator[Mongo]:
    with MongoClient[dict[str, Any]](mongo_server.address, tz_aware=True) as client:
        yield client[f"test_{uuid.uuid4().hex[:12]}"]


TEXT = st.text(st.characters(), max_size=15)  # lone surrogates and NUL included
PIECES = st.sampled_from(
    [
        *"/:|.-+ \n%'\"\\$",
        "001",
        "0000000042",
        "https://n.news.naver.com/mnews/article/",
        "http://[::1",
        "raw/country=kr/category=news/date=2026-11-30/raw_0001.json",
        "date=0000-13-99",
        "foodsafety",
        "$where",
        "9" * 18,
        "9" * 19,
        "9" * 5_000,
        "٣",
        "²",
        "0x1",
        "1e3",
        "1_0",
        "６",
        "5f0c1e2d3a4b5c6d7e8f9a0b",
    ]
)
NAMES = st.integers().map(str) | PIECES | TEXT | st.lists(PIECES | TEXT, max_size=6).map("".join)


@on_one_database
@given(kind=st.sampled_from(sorted(BY_KIND)), name=NAMES)
@example(kind="member", name="9" * 19)
@example(kind="context", name="²")
@example(kind="article", name="001/" + "9" * 5_000)
def test_of_any_name_nothing_is_known(
    connection: psycopg.Connection, db: Mongo, kind: str, name: str
) -> None:
    history = why(kind, name, connection, db, Settings())
    if history is not None:  # a member whom nobody has seen yet has a history too
        assert history.lines() and history.as_json()
    line = looked_for(kind, name)
    assert "\n" not in line and line.encode()


DAYS = st.dates().map(str) | st.sampled_from(["0001-01-01", "9999-12-31", "2026-01-01", "1969-12-31"])
PARTS = st.lists(
    st.sampled_from(["FINANCE", "GENERAL", "kr/news", "zz/" + "a" * 3_000, "kr/shop"]), max_size=3
)


@on_one_database
@given(
    pipeline=st.sampled_from(PIPELINES),
    first=DAYS,
    last=st.none() | DAYS,
    parts=PARTS,
    mode=st.sampled_from(["live", "batch"]),
    redo=st.sampled_from(["", "outdated", "all"]),
)
@example(pipeline="raw_files", first="0001-01-01", last=None, parts=[], mode="live", redo="")
@example(pipeline="economy_news", first="0001-01-01", last=None, parts=[], mode="live", redo="all")
@example(pipeline="recipes", first="0001-01-01", last=None, parts=[], mode="live", redo="all")
@example(pipeline="economy_news", first="9999-12-31", last=None, parts=[], mode="live", redo="all")
@example(pipeline="context_tags", first="0001-01-01", last=None, parts=[], mode="live", redo="")
@example(pipeline="recommendations", first="0001-01-01", last=None, parts=[], mode="live", redo="")
def test_any_days_are_quoted_or_no_question(
    connection: psycopg.Connection,
    db: Mongo,
    pipeline: str,
    first: str,
    last: str | None,
    parts: list[str],
    mode: str,
    redo: str,
) -> None:
    try:
        answer = quote(
            connection, db, Settings(), read_request(pipeline, first, last or first, parts, mode, redo)
        )
    except NotAQuestion:
        return
    assert answer.lines() and answer.as_json()
