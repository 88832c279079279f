"""The batch API's errors: who must act, what may have happened all the same, and what is no answer."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from resources.api_failure import RETRY, SUSPEND, ApiFailure, Verdict
from resources.batches import BatchApi, InputFileGone, QueueFull
from resources.errors import ServiceUnavailable
from resources.openai_api import ApiUnavailable
from tests.integration.resources.asking import KEY
from tests.integration.resources.batching import (
    CHAT,
    LONG_AGO,
    batches_at,
    calls_of,
    created,
    fresh_batches,
    input_file,
)
from tests.integration.resources.scripted_server import always, answer, scripted
from tests.integration.stand_ins import StandIn


@pytest.fixture
def api(openai_api: StandIn) -> Iterator[BatchApi]:
    with fresh_batches(openai_api) as opened:
        yield opened


@pytest.mark.parametrize("ask", [lambda api: api.look("b"), lambda api: api.download("f")])
def test_an_address_that_knows_nothing_is_not_taken_for_an_unknown_batch(
    openai_api: StandIn, ask: Callable[[BatchApi], object]
) -> None:
    with batches_at(f"{openai_api.url}/elsewhere").open() as api, pytest.raises(ApiFailure) as caught:
        ask(api)
    assert caught.value.verdict == Verdict(SUSPEND, "MODEL")


def test_a_lost_answer_to_a_creation_leaves_a_batch_that_is_found_by_its_metadata(
    openai_api: StandIn,
) -> None:
    with fresh_batches(openai_api, timeout_ms=500) as api:
        file_id = api.upload(input_file("두부"), "recipes-7.jsonl")
        for fault in ({"hang": "after"}, {"drop": "after"}):
            openai_api.fault(endpoint="batches/create", times=1, **fault)
            with pytest.raises(ApiUnavailable) as caught:
                api.create(file_id, CHAT, {"intent": "7"})
            assert caught.value.may_have_been_charged
        found = [one for one in api.created_since(LONG_AGO) if one.metadata == {"intent": "7"}]
    assert len(found) == 2 and len(calls_of(openai_api, "batches/create")) == 2


def test_a_lost_answer_to_an_upload_leaves_a_file_that_is_found_by_its_name(
    api: BatchApi, openai_api: StandIn
) -> None:
    openai_api.fault(endpoint="files/upload", times=1, drop="after")
    with pytest.raises(ApiUnavailable):
        api.upload(input_file("두부"), "recipes-7.jsonl")
    orphans = api.files_named("recipes-7.jsonl", LONG_AGO)
    assert len(orphans) == 1
    api.delete_file(orphans[0])
    assert api.files_named("recipes-7.jsonl", LONG_AGO) == []


@pytest.mark.parametrize("status", [400, 429])
def test_a_full_queue_at_creation_is_an_error_of_its_own(
    api: BatchApi, openai_api: StandIn, status: int
) -> None:
    openai_api.fault(endpoint="batches/create", status=status, code="token_limit_exceeded", times=1)
    with pytest.raises(QueueFull) as caught:
        created(api)
    assert caught.value.verdict == Verdict(RETRY)
    assert list(api.created_since(LONG_AGO)) == []


def test_an_input_file_that_is_gone_is_told_from_a_wrong_address(api: BatchApi) -> None:
    with pytest.raises(InputFileGone):
        api.create("file-gone", CHAT, {})


@pytest.mark.parametrize("status", [400, 404])
def test_a_refusal_while_the_input_file_is_there_is_handed_on(
    api: BatchApi, openai_api: StandIn, status: int
) -> None:
    openai_api.fault(endpoint="batches/create", status=status, times=1)
    with pytest.raises(ApiFailure) as caught:
        created(api)
    assert type(caught.value) is ApiFailure and caught.value.status == status


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"status": 401, "code": "invalid_api_key"}, "AUTH"),
        ({"status": 429, "code": "insufficient_quota"}, "QUOTA"),
        ({"status": 404, "code": "model_not_found"}, "MODEL"),
    ],
)
def test_what_hits_everyone_is_said_to_hit_everyone(
    api: BatchApi, openai_api: StandIn, fault: dict[str, Any], reason: str
) -> None:
    openai_api.fault(**fault)
    for ask in (
        lambda: api.upload(input_file("두부"), "x.jsonl"),
        lambda: api.create("file-x", CHAT, {}),
        lambda: api.look("batch_x"),
        lambda: api.download("file-x"),
        lambda: api.delete_file("file-x"),
        lambda: list(api.created_since(LONG_AGO)),
        lambda: api.files_named("x.jsonl", LONG_AGO),
    ):
        with pytest.raises(ApiFailure) as caught:
            ask()
        assert caught.value.verdict == Verdict(SUSPEND, reason)
        assert not isinstance(caught.value, ServiceUnavailable)


@pytest.mark.parametrize(
    "fault", [{"status": 500}, {"status": 503}, {"status": 429}, {"drop": "before"}, {"hang": True}], ids=str
)
def test_what_may_pass_is_an_unavailable_service_and_is_asked_once(
    openai_api: StandIn, fault: dict[str, Any]
) -> None:
    with fresh_batches(openai_api, timeout_ms=300) as api:
        openai_api.fault(**fault)
        for ask in (
            lambda: api.upload(input_file("두부"), "x.jsonl"),
            lambda: api.create("file-x", CHAT, {}),
            lambda: api.look("batch_x"),
            lambda: api.download("file-x"),
            lambda: list(api.created_since(LONG_AGO)),
        ):
            with pytest.raises(ServiceUnavailable) as caught:
                ask()
            assert isinstance(caught.value, ApiFailure) and KEY not in repr(caught.value)
        assert openai_api.get("faults")["faults"][0]["applied"] == 5


@pytest.mark.parametrize(
    "body",
    [
        b"<html>sign in</html>",
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"object": "list"}',
        b'{"data": null}',
        b'{"data": [{}]}',
    ],
)
@pytest.mark.parametrize("content_type", ["application/json", "text/html"])
def test_what_is_no_answer_is_never_an_empty_list_nor_an_unknown_batch(
    body: bytes, content_type: str
) -> None:
    script = always(answer(200, body, content_type=content_type))
    with scripted(script) as server, batches_at(server.url).open() as api:
        for ask in (
            lambda: list(api.created_since(LONG_AGO)),
            lambda: api.files_named("x.jsonl", LONG_AGO),
            lambda: api.look("batch_x"),
            lambda: api.create("file-x", CHAT, {}),
            lambda: api.upload(input_file("두부"), "x.jsonl"),
        ):
            with pytest.raises(ApiUnavailable) as caught:
                ask()
            assert caught.value.code == "unreadable_answer"


def test_a_list_that_repeats_itself_ends_with_an_error() -> None:
    entry = {
        "id": "batch_1",
        "status": "completed",
        "endpoint": "/v1/embeddings",
        "input_file_id": "file-1",
        "created_at": 1_800_000_000,
    }
    page = json.dumps({"data": [entry], "has_more": True}).encode()
    with scripted(always(answer(200, page, content_type="application/json"))) as server:
        with batches_at(server.url).open() as api, pytest.raises(ApiUnavailable):
            list(api.created_since(LONG_AGO))
        assert len(server.requests) == 2


def test_a_page_in_place_of_a_file_and_a_file_that_breaks_off_are_errors() -> None:
    page = answer(200, b"<html>sign in</html>", content_type="text/html; charset=utf-8")
    broken = answer(200, b"x" * 1_000, content_type="application/octet-stream")[:-500]
    for sent in (page, broken):
        with (
            scripted(always(sent)) as server,
            batches_at(server.url).open() as api,
            pytest.raises(ApiUnavailable),
        ):
            api.download("file-x")


def test_no_word_of_the_provider_is_kept(api: BatchApi, openai_api: StandIn) -> None:
    openai_api.fault(status=400, code=f"bad {KEY}", message=f"cannot read 두부 with {KEY}")
    with pytest.raises(ApiFailure) as caught:
        api.upload(input_file("두부"), "x.jsonl")
    said = repr(vars(caught.value)) + str(caught.value)
    assert KEY not in said and "두부" not in said and caught.value.code == "other"


def test_without_a_key_nothing_is_asked(openai_api: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    resource = batches_at(f"{openai_api.url}/v1", api_key="")
    with pytest.raises(ApiFailure) as caught, resource.open():
        pass
    assert caught.value.verdict == Verdict(SUSPEND, "AUTH") and "OPENAI_API_KEY" in caught.value.message
