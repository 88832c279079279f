"""Both files of a batch read line by line say what they say read at once, whatever they hold."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.recipes.embedding import DIMENSIONS, UnusableVector, embedding_request, vector_of
from resources.batch_answers import Answers
from resources.batch_lines import TokenUsage, read_results
from tests.bad_inputs import bad_inputs

WANTED = {"a", "b", "c"}
USAGE = {"prompt_tokens": 100, "completion_tokens": 7}


def line(custom_id: str, content: str | None = "답", line_id: str = "", status: int = 200) -> bytes:
    message = {"message": {"content": content}, "finish_reason": "stop"}
    response = {"status_code": status, "body": {"choices": [message], "usage": USAGE}}
    return json.dumps({"id": line_id, "custom_id": custom_id, "response": response}).encode() + b"\n"


def read(*files: bytes) -> tuple[dict[str, Any], Answers]:
    answers = Answers(WANTED)
    good = {name: body for file in files for name, body in answers.read(io.BytesIO(file))}
    return good, answers


def test_of_several_lines_the_first_good_one_counts_in_whichever_file() -> None:
    output = line("a", None) + line("b", "하나") + line("b", "둘")
    good, answers = read(output, line("a", "늦은 답") + line("b", None) + line("c", None))
    contents = {name: body["choices"][0]["message"]["content"] for name, body in good.items()}
    assert contents == {"a": "늦은 답", "b": "하나"}
    assert (answers.bad, answers.doubled, answers.unknown) == ({"c": "empty"}, 3, 0)


def test_strangers_are_counted_and_ignored_and_paid_for() -> None:
    good, answers = read(line("stranger") + b"\xff{\n" + line("a"))
    assert set(good) == {"a"} and (answers.unknown, answers.unreadable) == (1, 1)
    assert (answers.usage, answers.calls) == (TokenUsage(200, 0, 14), 2)
    assert answers.counts() == {"good": 1, "bad": 0, "unknown": 1, "doubled": 0, "unreadable": 1}


def test_a_line_written_twice_is_charged_once() -> None:
    _, answers = read(line("a", line_id="r1") * 2, line("b", line_id="r1"))
    assert (answers.usage.input_tokens, answers.calls) == (100, 1)


lines = st.lists(
    st.one_of(
        st.builds(
            line,
            st.sampled_from(sorted(WANTED)),
            st.sampled_from(["답", None, ""]),
            st.sampled_from(["", "r1", "r2"]),
            st.sampled_from([200, 500]),
        ),
        st.binary(max_size=20).map(lambda junk: junk.replace(b"\n", b"") + b"\n"),
    ),
    max_size=8,
).map(b"".join)


@bad_inputs
@given(lines, lines)
def test_line_by_line_is_the_same_as_at_once(output: bytes, errors: bytes) -> None:
    good, answers = read(output, errors)
    whole = read_results(output, errors)
    assert set(good) == set(whole.good) and answers.bad == whole.bad
    assert (answers.usage, answers.doubled) == (whole.usage, whole.doubled)
    assert answers.unreadable == whole.unreadable and answers.unknown == 0


def embedded(vector: Any) -> dict[str, Any]:
    return {"data": [{"embedding": vector}]}


def test_a_vector_is_asked_for_and_read_as_numbers() -> None:
    assert embedding_request("두부", "m") == {
        "model": "m",
        "input": "두부",
        "dimensions": DIMENSIONS,
        "encoding_format": "float",
    }
    assert vector_of(embedded([1, *[0.0] * (DIMENSIONS - 1)]))[:2] == [1, 0.0]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"data": []},
        {"data": [{"embedding": [1.0] * DIMENSIONS}] * 2},
        {"data": ["x"]},
        embedded("AAAA"),
        embedded([1.0] * (DIMENSIONS - 1)),
        embedded([0.0] * DIMENSIONS),
        embedded([float("nan")] * DIMENSIONS),
        embedded([float("inf")] * DIMENSIONS),
        embedded([1e300] * DIMENSIONS),
        embedded([10**400, *[0.0] * (DIMENSIONS - 1)]),
        embedded([True] * DIMENSIONS),
        embedded([None] * DIMENSIONS),
        embedded(["1"] * DIMENSIONS),
        embedded([[1.0]] * DIMENSIONS),
    ],
)
def test_what_is_no_vector_is_refused_with_a_reason(body: dict[str, Any]) -> None:
    with pytest.raises(UnusableVector, match="vector: "):
        vector_of(body)
