"""How batches of the OpenAI stand-in come to their end, what they show meanwhile, how large they may be."""

import json
from collections.abc import Callable
from typing import Any

import openai
import pytest

from local_stack.openai_stand_in import batch_lines as limits
from tests.integration.local_stack.openai_asking import (
    Served,
    batch_lines,
    results,
    run_batch,
    upload,
    wait_for,
)


def create(served: Served, count: int = 4) -> Any:
    return served.client.batches.create(
        input_file_id=upload(served, batch_lines(count)),
        endpoint="/v1/chat/completions",
        completion_window="24h",
    )


def set_pace(served: Served, **pace: Any) -> None:
    served.http.post("/_control/batches/pace", json=pace).raise_for_status()


def advance(served: Served, **how: Any) -> list[str]:
    moved: list[str] = served.http.post("/_control/batches/advance", json=how).json()["finished"]
    return moved


def status_of(served: Served, batch: Any) -> str:
    return str(served.client.batches.retrieve(batch.id).status)


@pytest.mark.parametrize(
    ("looks", "statuses"),
    [
        (1, ["completed"]),
        (3, ["in_progress", "in_progress", "completed"]),
        (20, ["validating", *["in_progress"] * 16, *["finalizing"] * 2, "completed"]),
    ],
)
def test_a_batch_can_end_with_the_nth_look_at_it(stand_in: Served, looks: int, statuses: list[str]) -> None:
    set_pace(stand_in, looks=looks)
    batch = create(stand_in)
    assert batch.status == "validating"
    assert [status_of(stand_in, batch) for _ in range(looks)] == statuses


def test_a_list_is_no_look(stand_in: Served) -> None:
    set_pace(stand_in, looks=1)
    create(stand_in)
    assert [one.status for _ in range(3) for one in stand_in.client.batches.list()] == ["validating"] * 3


def test_a_batch_can_be_moved_from_stop_to_stop_and_alone(stand_in: Served) -> None:
    set_pace(stand_in)
    mine, other = create(stand_in, 32), create(stand_in)
    assert advance(stand_in, to="in_progress", id=mine.id) == []
    shown = stand_in.client.batches.retrieve(mine.id)
    assert shown.status == "in_progress" and shown.request_counts and shown.output_file_id is None
    assert 0 < shown.request_counts.completed < shown.request_counts.total == 32
    assert advance(stand_in, to="finalizing", id=mine.id) == []
    assert (status_of(stand_in, mine), status_of(stand_in, other)) == ("finalizing", "validating")
    assert advance(stand_in, id=mine.id) == [mine.id]
    assert (status_of(stand_in, mine), status_of(stand_in, other)) == ("completed", "validating")
    stand_in.http.post("/_control/reset", json={}).raise_for_status()
    wait_for(lambda: status_of(stand_in, other) == "completed")


def test_a_pace_is_one_of_two(stand_in: Served) -> None:
    for wrong in ({"seconds": 1, "looks": 1}, {"looks": 0}, {"to": "end"}):
        assert stand_in.http.post("/_control/batches/pace", json=wrong).status_code == 400
    assert stand_in.http.post("/_control/batches/advance", json={"to": "nowhere"}).status_code == 400


def test_a_batch_can_show_a_status_that_nobody_knows_until_it_ends(stand_in: Served) -> None:
    stand_in.fault(shown_in_progress="paused", times=1)
    set_pace(stand_in)
    batch = create(stand_in)
    advance(stand_in, to="in_progress")
    assert status_of(stand_in, batch) == "paused"
    assert [one.status for one in stand_in.client.batches.list()] == ["paused"]
    assert advance(stand_in) == [batch.id]
    assert status_of(stand_in, batch) == "completed"


@pytest.mark.parametrize(("empty", "missing"), [(False, None), (True, "")])
def test_a_completed_batch_may_have_failed_in_every_line(
    stand_in: Served, empty: bool, missing: str | None
) -> None:
    stand_in.fault(error_share=1.0, empty_file_ids=empty, times=1)
    batch = run_batch(stand_in, batch_lines(3))
    assert (batch.status, batch.output_file_id) == ("completed", missing)
    assert (batch.request_counts.completed, batch.request_counts.failed) == (0, 3)
    assert len(results(stand_in, batch.error_file_id)) == 3


def test_lines_of_a_batch_can_be_cut_refused_fenced_and_of_the_wrong_type(stand_in: Served) -> None:
    effects = ("truncated", "refusal", "markdown_fence", "number_for_text")
    for number, effect in enumerate(effects):
        stand_in.fault(contains=f"{number}번 글", content=effect)
    batch = run_batch(stand_in, batch_lines(5))
    cut, refused, fenced, wrong, good = (
        line["response"]["body"]["choices"][0] for line in results(stand_in, batch.output_file_id)
    )
    assert cut["finish_reason"] == "length"
    assert refused["message"]["refusal"] and refused["message"]["content"] is None
    assert fenced["message"]["content"].startswith("```json\n")
    types = [
        {type(value) for card in json.loads(choice["message"]["content"])["cards"] for value in card.values()}
        for choice in (wrong, good)
    ]
    assert types == [{str, float}, {str}]


def test_a_refusal_for_the_full_queue_may_come_at_creation(stand_in: Served) -> None:
    stand_in.fault(endpoint="batches/create", status=429, code="token_limit_exceeded", times=1)
    with pytest.raises(openai.RateLimitError) as refused:
        create(stand_in)
    assert refused.value.code == "token_limit_exceeded"
    assert list(stand_in.client.batches.list()) == []


@pytest.mark.parametrize(
    ("fault", "error"), [({"hang": "after"}, openai.APITimeoutError), ({"drop": "after"}, openai.APIError)]
)
def test_a_batch_whose_answer_was_lost_exists(
    stand_in: Served, fault: dict[str, Any], error: type[Exception]
) -> None:
    file_id = upload(stand_in, batch_lines(1))
    stand_in.fault(endpoint="batches/create", times=1, **fault)
    with pytest.raises(error):
        stand_in.client.with_options(timeout=0.5).batches.create(
            input_file_id=file_id,
            endpoint="/v1/chat/completions",
            completion_window="24h",
            metadata={"intent": "41"},
        )
    assert [one.metadata for one in stand_in.client.batches.list()] == [{"intent": "41"}]
    assert [one["endpoint"] for one in stand_in.ledger()].count("batches/create") == 1


def test_a_list_of_files_comes_in_pages_of_one_purpose(stand_in: Served) -> None:
    made = [upload(stand_in, batch_lines(1)) for _ in range(5)]
    run_batch(stand_in, batch_lines(1))
    listed = [one.id for one in stand_in.client.files.list(purpose="batch", limit=2)]
    assert listed[1:] == made[::-1] and len(listed) == 6
    oldest_first = stand_in.client.files.list(purpose="batch", order="asc", limit=4)
    assert [one.id for one in oldest_first] == listed[::-1]


def test_an_input_file_must_be_named_as_one(stand_in: Served) -> None:
    with pytest.raises(openai.BadRequestError, match="jsonl"):
        stand_in.client.files.create(file=("lines.txt", b"{}\n"), purpose="batch")


@pytest.mark.parametrize(
    ("limit", "value", "code"), [("MAX_LINES", 2, "too_many_tasks"), ("MAX_BYTES", 500, "file_too_large")]
)
def test_a_batch_past_a_limit_fails(
    stand_in: Served, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, code: str
) -> None:
    assert (limits.MAX_LINES, limits.MAX_BYTES) == (50_000, 200 * 1024 * 1024)
    monkeypatch.setattr(limits, limit, value)
    batch = run_batch(stand_in, batch_lines(3))
    assert (batch.status, batch.errors.data[0].code) == ("failed", code)
    assert not [entry for entry in stand_in.ledger() if entry["custom_id"]]


def test_an_embedding_batch_counts_inputs_and_not_lines(
    stand_in: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_EMBEDDING_INPUTS", 3)
    body = {"model": "text-embedding-3-small", "input": ["두부", "새우"]}
    lines = [
        {"custom_id": str(number), "method": "POST", "url": "/v1/embeddings", "body": body}
        for number in range(2)
    ]
    batch = run_batch(stand_in, lines, endpoint="/v1/embeddings")
    assert (batch.status, batch.errors.data[0].code) == ("failed", "too_many_tasks")


def test_a_reset_forgets_batches_and_files_where_it_is_asked_to(serve: Callable[..., Served]) -> None:
    served = serve(batch_seconds=600)
    create(served)
    served.http.post("/_control/reset", json={}).raise_for_status()
    assert len(list(served.client.batches.list())) == len(list(served.client.files.list())) == 1
    served.http.post("/_control/reset", json={"batches": True}).raise_for_status()
    served = serve()
    assert list(served.client.batches.list()) == [] and list(served.client.files.list()) == []
