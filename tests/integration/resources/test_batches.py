"""The real SDK's files and batches against the stand-in: what is created, found, fetched and removed."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

import pytest

from resources.batches import BatchApi, line_usage
from resources.model_table import model_named
from resources.spending import Usage
from tests.integration.resources.asking import chat_at
from tests.integration.resources.batching import (
    CHAT,
    LONG_AGO,
    batches_at,
    calls_of,
    created,
    fresh_batches,
    input_file,
)
from tests.integration.stand_ins import StandIn


@pytest.fixture
def api(openai_api: StandIn) -> Iterator[BatchApi]:
    with fresh_batches(openai_api) as opened:
        yield opened


def test_a_batch_goes_from_its_file_to_its_results_and_leaves_nothing_behind(
    api: BatchApi, openai_api: StandIn
) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    file_id = api.upload(input_file("두부 조림", "무국"), "recipes-7.jsonl")
    batch = api.create(file_id, CHAT, {"intent": "7"})
    assert (batch.status, batch.is_over, batch.is_known_status) == ("validating", False, True)
    assert (batch.endpoint, batch.input_file_id, batch.metadata) == (CHAT, file_id, {"intent": "7"})
    assert before <= batch.created_at <= datetime.now(UTC)
    openai_api.post("batches/advance", to="in_progress")
    under_way = api.look(batch.id)
    assert under_way is not None and (under_way.status, under_way.counts.total) == ("in_progress", 2)
    openai_api.post("batches/advance")
    done = api.look(batch.id)
    assert done is not None and (done.status, done.is_over, done.errors) == ("completed", True, ())
    assert (done.counts.completed, done.counts.failed, done.error_file_id) == (2, 0, None)
    assert done.output_file_id is not None
    content = api.download(done.output_file_id)
    assert content is not None
    lines = [json.loads(line) for line in content.split(b"\n") if line]
    assert [line["custom_id"] for line in lines] == ["job-0", "job-1"]
    for one in (file_id, done.output_file_id):
        api.delete_file(one)
        assert api.download(one) is None
        api.delete_file(one)
    assert calls_of(openai_api, "batches/create") == calls_of(openai_api, "files/upload") == [200]


def test_a_line_costs_half_of_what_a_call_does(api: BatchApi, openai_api: StandIn) -> None:
    batch_id = created(api)
    openai_api.post("batches/advance")
    done = api.look(batch_id)
    assert done is not None and done.output_file_id
    line = json.loads(api.download(done.output_file_id) or b"")
    model = model_named("gpt-4o-mini", {})
    used = line_usage(line["response"]["body"], model.in_batch())
    entry = next(one for one in openai_api.get("ledger")["entries"] if one["custom_id"])
    assert (used.calls, used.input_tokens, used.output_tokens) == (
        1,
        entry["prompt_tokens"],
        entry["completion_tokens"],
    )
    assert float(used.cost_usd) == pytest.approx(entry["cost_usd"])
    assert used.cost_usd * 2 == model.cost_usd(used.input_tokens, 0, used.output_tokens)


@pytest.mark.parametrize(
    "body",
    [None, [], {}, {"usage": None}, {"usage": {"prompt_tokens": "7"}}, {"usage": {"prompt_tokens": -1}}],
)
def test_a_line_that_counts_no_tokens_is_a_call_all_the_same(body: Any) -> None:
    assert line_usage(body, model_named("gpt-4o-mini", {})) == Usage(1)


def test_all_batches_since_a_time_are_listed_newest_first_over_pages(
    api: BatchApi, openai_api: StandIn
) -> None:
    file_id = api.upload(input_file("두부"), "recipes.jsonl")
    made = [api.create(file_id, CHAT, {"intent": str(number)}).id for number in range(103)]
    found = list(api.created_since(LONG_AGO))
    assert [one.id for one in found] == made[::-1]
    assert found[-1].metadata == {"intent": "0"}
    assert calls_of(openai_api, "batches/list") == [200, 200]


def test_a_list_stops_at_what_is_older_but_not_for_some_minutes(api: BatchApi, openai_api: StandIn) -> None:
    batch_id = created(api)
    now = datetime.now(UTC)
    assert [one.id for one in api.created_since(now + timedelta(minutes=4))] == [batch_id]
    assert list(api.created_since(now + timedelta(minutes=6))) == []
    assert api.files_named("recipes-7.jsonl", now + timedelta(minutes=6)) == []
    assert len(api.files_named("recipes-7.jsonl", now + timedelta(minutes=4))) == 1


def test_an_input_file_is_found_by_its_name_among_others(api: BatchApi) -> None:
    wanted = [api.upload(input_file("두부"), "recipes-8.jsonl") for _ in range(2)]
    for name in ("recipes-80.jsonl", "recipes-9.jsonl"):
        api.upload(input_file("두부"), name)
    assert api.files_named("recipes-8.jsonl", LONG_AGO) == wanted[::-1]
    assert api.files_named("recipes-1.jsonl", LONG_AGO) == []


def test_a_batch_and_a_file_that_are_unknown_are_none_and_no_error(api: BatchApi) -> None:
    assert api.look("batch_unknown") is None
    assert api.cancel("batch_unknown") is None
    assert api.download("file-unknown") is None
    target = BytesIO()
    assert not api.download_to("file-unknown", target) and target.getvalue() == b""
    api.delete_file("file-unknown")


def test_a_full_queue_can_also_end_a_batch_that_was_created(api: BatchApi, openai_api: StandIn) -> None:
    openai_api.fault(token_limit_exceeded=True, times=1)
    full, good = created(api), created(api)
    openai_api.post("batches/advance")
    states = [api.look(one) for one in (full, good)]
    assert [one and (one.status, one.queue_was_full) for one in states] == [
        ("failed", True),
        ("completed", False),
    ]
    assert states[0] and states[0].suspend_reason is None


def test_a_batch_that_fails_names_the_code_and_the_line(api: BatchApi, openai_api: StandIn) -> None:
    lines = input_file("두부").getvalue() + b'{"custom_id"\n'
    batch_id = api.create(api.upload(BytesIO(lines), "x.jsonl"), CHAT, {}).id
    openai_api.post("batches/advance")
    state = api.look(batch_id)
    assert state is not None and (state.status, state.is_over) == ("failed", True)
    assert [(one.code, one.line) for one in state.errors] == [("invalid_json_line", 2)]
    assert (state.output_file_id, state.queue_was_full, state.metadata) == (None, False, {})


@pytest.mark.parametrize("missing", [False, True])
def test_a_file_that_there_is_not_is_none_however_the_api_says_it(
    api: BatchApi, openai_api: StandIn, missing: bool
) -> None:
    openai_api.fault(error_share=1.0, empty_file_ids=missing, times=1)
    batch_id = created(api, "두부", "무")
    openai_api.post("batches/advance")
    state = api.look(batch_id)
    assert state is not None and (state.status, state.output_file_id) == ("completed", None)
    assert (state.counts.total, state.counts.completed, state.counts.failed) == (2, 0, 2)
    assert state.error_file_id is not None
    assert len((api.download(state.error_file_id) or b"").splitlines()) == 2


def test_a_status_that_nobody_knows_is_neither_known_nor_over(api: BatchApi, openai_api: StandIn) -> None:
    openai_api.fault(shown_in_progress="paused", times=1)
    batch_id = created(api)
    openai_api.post("batches/advance", to="in_progress")
    state = api.look(batch_id)
    assert state is not None
    assert (state.status, state.is_known_status, state.is_over) == ("paused", False, False)


def test_a_batch_is_cancelled_once_and_over_stays_over(api: BatchApi, openai_api: StandIn) -> None:
    batch_id = created(api)
    cancelled = api.cancel(batch_id)
    assert cancelled is not None and cancelled.status == "cancelling" and not cancelled.is_over
    openai_api.post("batches/advance")
    again = api.cancel(batch_id)
    assert again is not None and (again.status, again.is_over) == ("cancelled", True)


def test_the_gate_is_that_of_the_key_and_the_model_as_for_direct_calls(openai_api: StandIn) -> None:
    url = f"{openai_api.url}/v1"
    assert batches_at(url).gate_key == chat_at(url).gate_key
    assert batches_at(url, api_key="sk-other").gate_key != batches_at(url).gate_key
