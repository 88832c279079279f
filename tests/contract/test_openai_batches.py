"""What the batch mode relies on in the API. A batch that is only created and cancelled costs nothing."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any, Final

import pytest

from resources.batch_lines import read_results, request_line
from resources.batch_state import BatchState
from resources.batches import BatchApi, InputFileGone
from resources.chat import ChatResource
from tests.contract.named_services import SERVICES
from tests.contract.test_openai import MESSAGES, SCHEMA
from tests.integration.stand_ins import StandIn

CHAT: Final = "/v1/chat/completions"
LOOKS_EVERY_SECONDS = 30
A_DAY_OF_LOOKS = 26 * 3600 // LOOKS_EVERY_SECONDS
takes_a_day = pytest.mark.skipif(not SERVICES.wait_for_batches, reason="CONTRACT_BATCHES=true waits for it")


class OwnBatches:
    """Files and batches of one test, gone or cancelled afterwards."""

    def __init__(self, api: BatchApi, name: str, ending: ExitStack) -> None:
        self.api = api
        self.name = name
        self.began = datetime.now(UTC)
        self._ending = ending

    def upload(self, content: bytes, name: str = "") -> str:
        file_id = self.api.upload(BytesIO(content), name or f"{self.name}.jsonl")
        self._ending.callback(self.api.delete_file, file_id)
        return file_id

    def create(self, content: bytes) -> BatchState:
        batch = self.api.create(self.upload(content), CHAT, {"intent": self.name})
        self._ending.callback(self._cancel, batch.id)
        return batch

    def _cancel(self, batch_id: str) -> None:
        state = self.api.look(batch_id)
        if state is not None and not state.is_over:
            state = self.api.cancel(batch_id)
        for file_id in (state.output_file_id, state.error_file_id) if state else ():
            if file_id:
                self.api.delete_file(file_id)


@pytest.fixture
def own(batches: BatchApi, own_name: str) -> Iterator[OwnBatches]:
    with ExitStack() as ending:
        yield OwnBatches(batches, own_name, ending)


def lines(chat: ChatResource, count: int) -> bytes:
    body = chat.request_body(MESSAGES, SCHEMA)
    return b"".join(request_line(f"job-{number}", CHAT, body) for number in range(count))


def ended(api: BatchApi, batch_id: str, stand_in: StandIn | None) -> BatchState:
    """The batch when it is over: at once at the stand-in, within a day elsewhere."""
    if stand_in is not None:
        stand_in.post("batches/advance")
    for _ in range(A_DAY_OF_LOOKS):
        state = api.look(batch_id)
        assert state is not None and state.is_known_status
        if state.is_over:
            return state
        threading.Event().wait(LOOKS_EVERY_SECONDS)
    raise AssertionError(f"{batch_id} has not ended within a day")


def test_an_input_file_is_found_by_its_exact_name_until_it_is_deleted(own: OwnBatches) -> None:
    content = b'{"custom_id": "1"}\n'
    ids = [own.upload(content) for _ in range(2)]
    own.upload(content, f"{own.name}0.jsonl")
    found = own.api.files_named(f"{own.name}.jsonl", own.began)
    assert sorted(found) == sorted(ids)
    own.api.delete_file(ids[0])
    own.api.delete_file(ids[0])
    assert own.api.download(ids[0]) is None
    assert own.api.files_named(f"{own.name}.jsonl", own.began) == [ids[1]]


def test_what_is_unknown_is_none_and_no_error(batches: BatchApi) -> None:
    assert batches.look("batch_0123456789abcdef0123456789abcdef") is None
    assert batches.cancel("batch_0123456789abcdef0123456789abcdef") is None
    assert batches.download("file-0123456789abcdefghijkl") is None
    batches.delete_file("file-0123456789abcdefghijkl")


def test_a_batch_is_found_again_by_its_metadata_and_can_be_cancelled(
    own: OwnBatches, chat: ChatResource
) -> None:
    made = [own.create(lines(chat, 1)) for _ in range(2)]
    assert all((one.is_known_status, one.is_over, one.endpoint) == (True, False, CHAT) for one in made)
    assert abs(made[0].created_at - own.began) < timedelta(minutes=5)
    mine = [one for one in own.api.created_since(own.began) if one.metadata == {"intent": own.name}]
    assert {one.id for one in mine} == {one.id for one in made}
    assert {one.input_file_id for one in mine} == {one.input_file_id for one in made}
    assert [one.created_at for one in mine] == sorted((one.created_at for one in mine), reverse=True)
    cancelled = own.api.cancel(made[0].id)
    assert cancelled is not None and cancelled.status in ("cancelling", "cancelled")


def test_a_batch_of_a_file_that_is_gone_is_not_created(own: OwnBatches, chat: ChatResource) -> None:
    file_id = own.upload(lines(chat, 1))
    own.api.delete_file(file_id)
    with pytest.raises(InputFileGone):
        own.api.create(file_id, CHAT, {"intent": own.name})


@takes_a_day
def test_each_line_is_answered_under_its_id_and_a_bad_one_harms_no_other(
    own: OwnBatches, chat: ChatResource, stand_in: StandIn | None
) -> None:
    loose: dict[str, Any] = json.loads(json.dumps(chat.request_body(MESSAGES, SCHEMA)))
    del loose["response_format"]["json_schema"]["schema"]["additionalProperties"]
    batch = own.create(lines(chat, 3) + request_line("job-bad", CHAT, loose))
    over = ended(own.api, batch.id, stand_in)
    assert (over.status, over.counts.total, over.counts.completed) == ("completed", 4, 3)
    files = [own.api.download(id_) if id_ else None for id_ in (over.output_file_id, over.error_file_id)]
    results = read_results(*files)
    assert sorted(results.good) == ["job-0", "job-1", "job-2"]
    assert results.bad == {"job-bad": "status:400"}
    assert (results.unreadable, results.doubled) == (0, 0)
    assert results.usage.input_tokens > 0 < results.usage.output_tokens
    for body in results.good.values():
        assert set(json.loads(body["choices"][0]["message"]["content"])) == {"text", "numbers"}


@takes_a_day
def test_a_file_with_a_line_that_is_no_json_fails_as_a_whole_and_names_the_line(
    own: OwnBatches, chat: ChatResource, stand_in: StandIn | None
) -> None:
    batch = own.create(lines(chat, 1) + b'{"custom_id"\n')
    over = ended(own.api, batch.id, stand_in)
    assert (over.status, over.output_file_id) == ("failed", None)
    assert [(one.code, one.line) for one in over.errors] == [("invalid_json_line", 2)]
