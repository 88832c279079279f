"""What is asked, and that nothing real is unless it was meant."""

from local_stack.environment import marked
from local_stack.processes import PROJECT
from tests.contract.named_services import NamedServices, services_named_in

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
