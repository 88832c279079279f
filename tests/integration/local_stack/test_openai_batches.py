"""Files and batches of the OpenAI stand-in."""

import math
from collections.abc import Callable

import openai
import pytest

from tests.integration.local_stack.openai_asking import (
    Served,
    batch_lines,
    results,
    run_batch,
    upload,
    wait_for,
)


def test_a_file_comes_back_as_it_was_sent_and_can_be_deleted(stand_in: Served) -> None:
    content = "첫 줄\u2028같은 줄\r\n--x\n".encode() + bytes(range(256))
    sent = stand_in.client.files.create(file=("자료 1.jsonl", content), purpose="batch")
    assert (sent.filename, sent.bytes) == ("자료 1.jsonl", len(content))
    assert stand_in.client.files.content(sent.id).content == content
    assert stand_in.client.files.delete(sent.id).deleted
    with pytest.raises(openai.NotFoundError):
        stand_in.client.files.retrieve(sent.id)


def test_batch_lines_answer_as_direct_calls_do_at_half_the_price(stand_in: Served) -> None:
    lines = batch_lines(3)
    lines[1]["body"]["temperature"] = 9
    batch = run_batch(stand_in, lines, metadata={"intent": "7"})
    counts = batch.request_counts
    assert (batch.status, counts.total, counts.completed, counts.failed) == ("completed", 3, 2, 1)
    assert batch.metadata == {"intent": "7"}
    good, bad = results(stand_in, batch.output_file_id), results(stand_in, batch.error_file_id)
    assert [line["custom_id"] for line in good] == ["job-0", "job-2"]
    assert (bad[0]["response"]["status_code"], bad[0]["error"]) == (400, None)
    direct = stand_in.client.chat.completions.create(**lines[0]["body"])
    assert (
        good[0]["response"]["body"]["choices"][0]["message"]["content"] == direct.choices[0].message.content
    )
    in_batch = next(entry for entry in stand_in.ledger() if entry["custom_id"] == "job-0")
    alone = stand_in.ledger()[-1]
    assert math.isclose(in_batch["cost_usd"] * 2, alone["cost_usd"], rel_tol=1e-6)
    assert in_batch["request_sha256"] == alone["request_sha256"] and in_batch["batch_id"] == batch.id
    assert batch.usage.input_tokens == sum(
        line["response"]["body"]["usage"]["prompt_tokens"] for line in good
    )


def test_an_embedding_batch_gives_vectors(stand_in: Served) -> None:
    body = {"model": "text-embedding-3-small", "input": "두부 조림"}
    line = {"custom_id": "r1", "method": "POST", "url": "/v1/embeddings", "body": body}
    batch = run_batch(stand_in, [line], endpoint="/v1/embeddings")
    found = results(stand_in, batch.output_file_id)[0]["response"]["body"]
    assert len(found["data"][0]["embedding"]) == 1536 and batch.error_file_id is None


def test_a_batch_with_a_bad_file_fails_with_the_line(stand_in: Served) -> None:
    twice = batch_lines(1) * 2
    batch = run_batch(stand_in, twice)
    assert (batch.status, batch.errors.data[0].code, batch.errors.data[0].line) == (
        "failed",
        "duplicate_custom_id",
        2,
    )
    assert batch.output_file_id is None


@pytest.mark.parametrize("status", ["expired", "cancelled"])
def test_an_expired_or_cancelled_batch_delivers_what_was_finished(stand_in: Served, status: str) -> None:
    stand_in.fault(batch_status=status, times=1)
    batch = run_batch(stand_in, batch_lines(30))
    good, bad = results(stand_in, batch.output_file_id), results(stand_in, batch.error_file_id)
    assert batch.status == status and 5 < len(good) < 25
    assert {line["error"]["code"] for line in bad} == ({"batch_expired"} if status == "expired" else set())
    assert run_batch(stand_in, batch_lines(1)).status == "completed"


def test_batch_output_can_lack_repeat_mix_and_fail_lines(stand_in: Served) -> None:
    stand_in.fault(
        missing_share=0.2,
        error_share=0.2,
        duplicate_lines=2,
        unknown_lines=1,
        shuffle=True,
        u2028=True,
        times=1,
    )
    batch = run_batch(stand_in, batch_lines(40))
    good, bad = results(stand_in, batch.output_file_id), results(stand_in, batch.error_file_id)
    ids = [line["custom_id"] for line in good]
    known = [one for one in ids if one.startswith("job-")]
    assert len(known) - len(set(known)) == 2 and "unknown-0" in ids
    assert known != sorted(known, key=lambda one: int(one.removeprefix("job-")))
    assert bad and {line["response"]["status_code"] for line in bad} == {500}
    assert len(set(known)) + len(bad) < 40
    raw = stand_in.client.files.content(batch.output_file_id).content
    assert raw.count("\u2028".encode()) >= len(set(known))


def test_a_batch_can_be_refused_for_the_queue_being_full(stand_in: Served) -> None:
    stand_in.fault(token_limit_exceeded=True, times=1)
    batch = run_batch(stand_in, batch_lines(2))
    assert (batch.status, batch.errors.data[0].code) == ("failed", "token_limit_exceeded")


def test_an_open_batch_can_be_cancelled_and_is_listed_newest_first(serve: Callable[..., Served]) -> None:
    served = serve(batch_seconds=600)
    made = []
    for _ in range(3):
        file_id = upload(served, batch_lines(1))
        made.append(
            served.client.batches.create(
                input_file_id=file_id, endpoint="/v1/chat/completions", completion_window="24h"
            )
        )
    assert [one.id for one in served.client.batches.list(limit=2)] == [one.id for one in reversed(made)]
    assert served.client.batches.cancel(made[0].id).status == "cancelling"
    wait_for(lambda: served.client.batches.retrieve(made[0].id).status == "cancelled")
    assert served.client.batches.retrieve(made[1].id).status == "validating"
    with pytest.raises(openai.ConflictError):
        served.client.batches.cancel(made[0].id)
