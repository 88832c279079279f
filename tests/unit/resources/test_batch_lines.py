"""Lines of batch files: written so that nobody cuts them, read whatever they hold, split by the limits."""

import hashlib
import io
import json
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.batch_lines import (
    TokenUsage,
    content_of,
    emptied,
    hash_of,
    read_lines,
    read_results,
    request_line,
    write_shards,
)
from tests.bad_inputs import bad_inputs

USAGE = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 64}}
PAID = TokenUsage(100, 64, 7)
CHAT = "/v1/chat/completions"


def completion(content: Any = "답", finish: Any = "stop", refusal: Any = None, **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "refusal": refusal}
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], **more}


def line(custom_id: Any, body: Any = None, status: Any = 200, error: Any = None, **more: Any) -> bytes:
    response = None if status is None else {"status_code": status, "request_id": "r", "body": body}
    written = {"custom_id": custom_id, "response": response, "error": error, **more}
    return json.dumps(written, ensure_ascii=False).encode() + b"\n"


def reason(raw: bytes) -> str:
    results = read_results(raw, None)
    assert not results.good and list(results.bad) == ["a"]
    return results.bad["a"]


def test_both_files_are_read_in_any_order() -> None:
    output = line("b", completion("나")) + line("a", completion("가"))
    errors = line("c", None, None, {"code": "batch_expired", "message": "too late"})
    results = read_results(output, errors)
    assert {name: content_of(body) for name, body in results.good.items()} == {"a": "가", "b": "나"}
    assert results.bad == {"c": "error:batch_expired"}


@pytest.mark.parametrize(
    "nothing", [None, b"", b"\n\r\n  \n", io.BytesIO()], ids=["null", "empty", "blank", "file"]
)
def test_a_missing_or_empty_file_says_nothing(nothing: Any) -> None:
    results = read_results(nothing, nothing)
    assert (results.good, results.bad, results.unreadable, results.doubled) == ({}, {}, 0, 0)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (line("a", completion(), error={"code": "server_error"}), "error:server_error"),
        (line("a", None, None, {"code": "text with 두부"}), "error:unknown"),
        (line("a", completion(), error={}), "error:unknown"),
        (line("a", completion(), error=""), "error:unknown"),
        (line("a", {"error": {"message": "secret"}}, 429), "status:429"),
        (line("a", completion(), 201), "status:201"),
        (line("a", completion(), "200"), "unreadable"),
        (line("a", completion(), True), "unreadable"),
        (line("a", status=None), "unreadable"),
        (line("a", completion(finish="length")), "finish:length"),
        (line("a", {"choices": [{"finish_reason": "length"}]}), "finish:length"),
        (line("a", completion(None, "content_filter")), "finish:content_filter"),
        (line("a", completion(None, refusal="아니요")), "refused"),
        (line("a", completion("답", refusal="아니요")), "refused"),
        (line("a", completion("")), "empty"),
        (line("a", completion(" \n")), "empty"),
        (line("a", completion(None)), "empty"),
        (line("a", completion(["답"])), "empty"),
        (line("a", {"choices": []}), "unreadable"),
        (line("a", {"choices": [{"finish_reason": "stop"}]}), "unreadable"),
        (line("a", "text"), "unreadable"),
        (line("a", {"object": "chat.completion"}), "unreadable"),
        (line("a", {"data": []}), "empty"),
        (line("a", {"data": [{"embedding": []}]}), "empty"),
    ],
)
def test_a_bad_line_has_a_short_reason_without_content(raw: bytes, expected: str) -> None:
    assert reason(raw) == expected


@pytest.mark.parametrize(
    "body",
    [
        completion(),
        completion(finish=None),
        completion(refusal=""),
        {"data": [{"embedding": [0.5, 0.25], "index": 0}]},
        {"data": [{"embedding": "AACAPw=="}]},
    ],
)
def test_a_good_line_gives_its_body(body: dict[str, Any]) -> None:
    assert read_results(line("a", body), None).good == {"a": body}


def test_lines_end_at_newlines_only_and_may_have_carriage_returns() -> None:
    text = "가\u2028나\u2029다\u0085라\x0b\x0c\x1c"
    output = (line("a", completion(text)) + line("b", completion())).replace(b"\n", b"\r\n")
    results = read_results(b"\xef\xbb\xbf" + output.rstrip(), None)
    assert content_of(results.good["a"]) == text
    assert set(results.good) == {"a", "b"} and not results.unreadable


@pytest.mark.parametrize(
    "raw",
    [
        b"{\n",
        b"[]\n",
        b"null\n",
        b'{"custom_id": "a", "response"\n',
        b'{"custom_id": "\xff"}\n',
        b'{"custom_id": "\\ud800"}\n',
        b'{"custom_id": ' + b"1" * 5000 + b"}\n",
        b"[" * 100_000 + b"\n",
        line(None, completion()),
        line(7, completion()),
        line("", completion()),
        json.dumps({"response": {"status_code": 200, "body": completion()}}).encode(),
    ],
    ids=lambda raw: repr(raw[:30]),
)
def test_a_line_that_names_no_request_is_counted_and_the_others_are_read(raw: bytes) -> None:
    results = read_results(line("x", completion()) + raw.rstrip() + b"\n" + line("y", completion()), None)
    assert results.unreadable == 1
    assert set(results.good) == {"x", "y"} and not results.bad


def test_the_first_good_line_of_a_request_wins_and_the_others_are_counted() -> None:
    bad = line("a", completion(finish="length"))
    results = read_results(bad + line("a", completion("첫째")) + line("a", completion("둘째")) + bad, bad)
    assert content_of(results.good["a"]) == "첫째"
    assert not results.bad and results.doubled == 4


def test_a_good_line_wins_over_an_error_whichever_file_is_read_first() -> None:
    good, bad = line("a", completion()), line("a", None, None, {"code": "batch_expired"})
    for files in ((good, bad), (bad, good)):
        results = read_results(*files)
        assert list(results.good) == ["a"] and not results.bad and results.doubled == 1


def test_of_several_bad_lines_the_first_reason_stays() -> None:
    results = read_results(line("a", {}, 500) + line("a", completion("")), None)
    assert results.bad == {"a": "status:500"}


def test_tokens_of_bad_lines_are_paid_for_too() -> None:
    output = line("a", completion(usage=USAGE)) + line("b", completion(finish="length", usage=USAGE))
    errors = line("c", {"error": {}}, 500) + line(
        "d", {"data": [{"embedding": [1.0]}], "usage": {"prompt_tokens": 5}}
    )
    assert read_results(output, errors).usage == TokenUsage(205, 128, 14)


def test_a_line_written_twice_was_paid_for_once_and_a_second_request_twice() -> None:
    once = line("a", completion(usage=USAGE), id="batch_req_1")
    again = line("a", completion(usage=USAGE), id="batch_req_2")
    assert read_results(once + once, once).usage == PAID
    assert read_results(once + again, None).usage == PAID + PAID


@pytest.mark.parametrize("count", [None, -1, "100", 1.5, True, 10**30, [1]])
def test_a_count_of_tokens_that_is_none_counts_nothing(count: Any) -> None:
    usage = {
        "prompt_tokens": count,
        "completion_tokens": count,
        "prompt_tokens_details": {"cached_tokens": count},
    }
    assert read_results(line("a", completion(usage=usage)), None).usage == TokenUsage()
    assert read_results(line("a", completion(usage={"prompt_tokens_details": 3})), None).usage == TokenUsage()


@pytest.mark.parametrize("body", [{}, {"data": []}, {"choices": [{"message": {"content": None}}]}])
def test_only_a_completion_has_content(body: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no chat completion"):
        content_of(body)


def test_a_request_line_is_one_line_to_every_reader() -> None:
    text = "두부\u2028조림\u2029\u0085\n\r\x0b\x0c\x1c\x1d\x1e끝"
    written = request_line("a\u2028", CHAT, {"model": "m", "두부\u0085": text})
    assert written.endswith(b"\n") and len(written.decode().splitlines()) == 1
    assert "두부".encode() in written and not written.startswith(b"\xef\xbb\xbf")
    assert json.loads(written) == {
        "custom_id": "a\u2028",
        "method": "POST",
        "url": CHAT,
        "body": {"model": "m", "두부\u0085": text},
    }


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("\ud800끝", "\ufffd끝"),
        ("끝\udc00", "끝\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
    ],
)
def test_lone_surrogates_are_replaced_and_halves_joined(text: str, sent: str) -> None:
    assert json.loads(request_line("a", CHAT, {"t": text}))["body"]["t"] == sent


def test_numbers_that_are_not_json_are_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        request_line("a", CHAT, {"t": float("nan")})


def numbered(sizes: list[int]) -> list[tuple[str, bytes]]:
    return [(f"id-{n}", b"x" * (size - 1) + b"\n") for n, size in enumerate(sizes)]


@pytest.fixture
def open_shard(tmp_path: Path) -> Any:
    opened: list[BinaryIO] = []

    def open_file(number: int) -> BinaryIO:
        assert all(file.closed for file in opened)
        opened.append((tmp_path / f"shard-{number}.jsonl").open("xb"))
        return opened[-1]

    yield open_file
    assert all(file.closed for file in opened)


@pytest.mark.parametrize(
    ("sizes", "limits", "expected"),
    [
        ([], (2, 100), []),
        ([10], (2, 10), [1]),
        ([10] * 5, (2, 100), [2, 2, 1]),
        ([10] * 4, (2, 100), [2, 2]),
        ([60, 40, 1, 99, 100], (9, 100), [2, 2, 1]),
        ([60, 41], (9, 100), [1, 1]),
    ],
)
def test_lines_are_split_at_the_limits(
    tmp_path: Path, open_shard: Any, sizes: list[int], limits: tuple[int, int], expected: list[int]
) -> None:
    lines = numbered(sizes)
    shards = list(write_shards(lines, open_shard, *limits))
    assert [len(shard.custom_ids) for shard in shards] == expected
    assert [name for shard in shards for name in shard.custom_ids] == [name for name, _ in lines]
    assert [shard.number for shard in shards] == list(range(1, len(expected) + 1))
    written = [(tmp_path / f"shard-{shard.number}.jsonl").read_bytes() for shard in shards]
    assert b"".join(written) == b"".join(one for _, one in lines)
    assert [shard.bytes for shard in shards] == [len(one) for one in written]
    assert [shard.sha256 for shard in shards] == [hashlib.sha256(one).hexdigest() for one in written]
    assert len(list(tmp_path.iterdir())) == len(expected)


def test_a_shard_is_whole_on_disk_when_it_is_yielded(tmp_path: Path, open_shard: Any) -> None:
    shard = next(write_shards(numbered([10] * 3), open_shard, 2, 100))
    assert hash_of([(tmp_path / "shard-1.jsonl").read_bytes()]) == shard.sha256
    assert not (tmp_path / "shard-2.jsonl").exists()


def test_a_file_without_a_name_holds_the_last_shard_alone_whatever_was_read_of_the_one_before() -> None:
    with TemporaryFile(buffering=0) as file:
        for written in (b"a long shard\n" * 9, b"short\n", b"another\n" * 3):
            with emptied(file) as opened:
                opened.write(written)
            file.seek(0)
            assert file.read() == written
            file.seek(2)


def test_a_line_above_the_limit_is_refused_by_its_name(open_shard: Any) -> None:
    shards = write_shards(numbered([10, 10, 101]), open_shard, 2, 100)
    assert next(shards).custom_ids == ("id-0", "id-1")
    with pytest.raises(ValueError, match="id-2"):
        next(shards)


def test_splitting_holds_one_line_in_memory(open_shard: Any) -> None:
    def lines() -> Iterator[tuple[str, bytes]]:
        for n in range(200):
            yield f"id-{n}", os.urandom(100_000) + b"\n"

    tracemalloc.start()
    try:
        shards = list(write_shards(lines(), open_shard))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert shards[0].bytes == 200 * 100_001
    assert peak < 2_000_000


def test_a_file_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "output.jsonl"
    with path.open("wb") as file:
        for n in range(100):
            file.write(line(f"id-{n}", completion("답" * 50_000)))
    tracemalloc.start()
    try:
        with path.open("rb") as file:
            good = sum(one is not None and one.body is not None for one in read_lines(file))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert good == 100 and peak < 3_000_000


def test_the_hash_is_that_of_the_lines_in_their_order() -> None:
    assert hash_of([b"a\n", b"b\n"]) == hashlib.sha256(b"a\nb\n").hexdigest() != hash_of([b"b\n", b"a\n"])


NAMES = st.sampled_from(
    [
        "custom_id",
        "response",
        "error",
        "status_code",
        "body",
        "choices",
        "message",
        "content",
        "usage",
        "data",
        "id",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(200),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=8,
)
LINES = st.builds(
    lambda body, status, more: json.dumps({**json.loads(line("a", body, status)), **more}).encode(),
    JSON,
    JSON,
    st.dictionaries(NAMES, JSON, max_size=3),
)
RAW_LINES = st.lists(
    st.binary(max_size=40) | LINES | JSON.map(lambda one: json.dumps(one).encode()), max_size=4
)


@bad_inputs
@given(output=RAW_LINES, errors=RAW_LINES)
def test_any_bytes_are_sorted_into_good_bad_and_unreadable(output: list[bytes], errors: list[bytes]) -> None:
    files = [b"\n".join(lines) for lines in (output, errors)]
    results = read_results(*files)
    written = sum(bool(one.strip()) for file in files for one in file.split(b"\n"))
    assert len(results.good) + len(results.bad) + results.unreadable + results.doubled == written
    assert not set(results.good) & set(results.bad)
    for name in (*results.good, *results.bad):
        assert name.encode()


TEXTS = st.text(st.characters(), max_size=30)  # lone surrogates included


@bad_inputs
@given(custom_id=TEXTS, body=st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS, max_size=3), max_size=4))
def test_any_text_is_written_as_one_line_that_reads_back(custom_id: str, body: dict[str, Any]) -> None:
    written = request_line(custom_id, CHAT, body)
    assert written.count(b"\n") == 1 and len(written.decode().splitlines()) == 1
    whole = json.dumps([custom_id, body], ensure_ascii=False)
    if whole == whole.encode("utf-8", "replace").decode():
        read = json.loads(written)
        assert [read["custom_id"], read["body"]] == [custom_id, body]
