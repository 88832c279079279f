"""What is asked, and that nothing real is unless it was meant."""

from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from pymongo.database import Database

from local_stack.environment import marked
from local_stack.processes import PROJECT
from tests.contract.named_services import SERVICES, NamedServices, services_named_in
from tests.contract.reachable import wrong_with
from tests.integration.resources.scripted_server import unused_address
from tests.integration.stand_ins import StandIn

ADDRESSES = {
    "MONGODB_URI": "mongodb://user:canary-1@mongo.example:27017/?tls=true",
    "DATABASE_URL": "postgresql://user:canary-2@db.example:5432/granary",
    "S3_ENDPOINT_URL": "https://account.r2.example",
    "OPENAI_API_KEY": "canary-3",
}


def test_addresses_in_the_shell_are_not_asked_without_the_switch() -> None:
    assert services_named_in(ADDRESSES) == NamedServices()
    assert services_named_in({**ADDRESSES, "CONTRACT_REAL": "false"}) == NamedServices()


def test_each_service_is_named_on_its_own() -> None:
    for name in ADDRESSES:
        told = services_named_in({"CONTRACT_REAL": "true", name: ADDRESSES[name]}).announcement()
        assert sum("stand-in" in line for line in told) == 3


def test_what_the_local_stack_gave_out_is_a_stand_in() -> None:
    own = {**ADDRESSES, "DATABASE_URL": "postgresql://of-mine.example/granary"}
    loaded = marked(own, PROJECT / ".local")
    told = services_named_in({**loaded, "CONTRACT_REAL": "true"}).announcement()
    assert sum("stand-in" in line for line in told) == 4
    told = services_named_in({**loaded, **ADDRESSES, "CONTRACT_REAL": "true"}).announcement()
    assert sum("stand-in" in line for line in told) == 3


def test_what_is_real_and_costs_is_told_before_and_no_address() -> None:
    services = services_named_in({"CONTRACT_REAL": "true", **ADDRESSES})
    told = "\n".join(services.announcement())
    assert told.count("the real one") == 4 and "US cent" in told
    assert "canary" not in told + repr(services) and "example" not in told


def test_a_real_api_is_not_waited_for_unless_asked_to_be() -> None:
    real = {"CONTRACT_REAL": "true", "OPENAI_API_KEY": "canary"}
    assert not services_named_in(real).wait_for_batches
    assert services_named_in({**real, "CONTRACT_BATCHES": "true"}).wait_for_batches
    assert services_named_in({"CONTRACT_REAL": "true"}).wait_for_batches


def test_a_named_service_that_is_away_or_no_address_is_told_before_the_suite_and_stays_unnamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    away = unused_address()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "canary")
    services = {
        "DATABASE_URL": f"postgresql://user:canary@{away}/granary",
        "MONGODB_URI": "canary",
        "S3_ENDPOINT_URL": f"http://{away}",
        "OPENAI_BASE_URL": f"http://{away}/v1",
    }
    told = wrong_with(services_named_in({"CONTRACT_REAL": "true", **services}))
    assert [line.split(": ")[1].split(",")[0] for line in told] == list(services)
    text = "\n".join(told)
    assert not [part for part in ("canary", away, "make up") if part in text]


@pytest.mark.parametrize("prices", ["{a", "[1]", '{"gpt-4o-mini": 3}', '{"gpt-4o-mini": {"input": "x"}}'])
def test_prices_that_are_none_are_told_by_their_name(monkeypatch: pytest.MonkeyPatch, prices: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    named = {"CONTRACT_REAL": "true", "OPENAI_API_KEY": "canary", "MODEL_PRICES": prices}
    (told,) = wrong_with(services_named_in(named))
    assert "MODEL_PRICES " in told and "canary" not in told


def test_a_role_that_may_create_no_database_is_told_with_the_remedy(
    connection: psycopg.Connection, database_url: str, own_name: str
) -> None:
    if SERVICES.database_url:
        pytest.skip("no role is made in a server of somebody else")
    connection.execute(f"CREATE ROLE {own_name} LOGIN PASSWORD 'canary'".encode())
    try:
        url = urlsplit(database_url)
        poor = url._replace(netloc=f"{own_name}:canary@{url.hostname}:{url.port}").geturl()
        (told,) = wrong_with(services_named_in({"CONTRACT_REAL": "true", "DATABASE_URL": poor}))
    finally:
        connection.execute(f"DROP ROLE {own_name}".encode())
    assert "CREATEDB" in told and "canary" not in told


def test_services_that_answer_are_not_complained_of(
    database_url: str, mongo: Database[dict[str, Any]], stand_in: StandIn | None
) -> None:
    host, port = mongo.client.address or ("", 0)
    named = {
        "DATABASE_URL": database_url,
        "MONGODB_URI": SERVICES.mongodb_uri or f"mongodb://{host}:{port}",
    }
    if stand_in is not None:
        named |= {"OPENAI_BASE_URL": f"{stand_in.url}/v1", "OPENAI_API_KEY": "sk-contract"}
    assert wrong_with(services_named_in({"CONTRACT_REAL": "true", **named})) == []
    assert wrong_with(NamedServices()) == []
