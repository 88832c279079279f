"""Generated answers of a model: each kind of result is read and storable, or refused by a rule.

500 inputs each; GRANARY_BAD_INPUTS=10000 for the long round.
"""

import json
import unicodedata
from datetime import date
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assets.economy_news.answers import BROKEN_RULES, InvalidOutput
from assets.economy_news.batch_line_verdicts import bad_line
from assets.economy_news.models import Claim
from assets.economy_news.result_kinds import KINDS, ResultKind
from resources.batch_lines import read_results
from tests.bad_inputs import bad_inputs

SUMMARY_FULL = "기준금리가 동결됐다. 환율은 내렸고 국채 금리도 내렸다. 코스피는 3.5% 올랐다."
CLAIM = Claim(1, "run", 1, 1, date(2026, 11, 30), "FINANCE", "제목", SUMMARY_FULL, lease_was_lost=False)

TEXT = st.text(st.characters(), max_size=12)  # lone surrogates included
WORDS = TEXT | st.sampled_from(
    [
        "가" * 30,
        "기준금리가 동결",
        "환율은",
        "국채",
        " ",
        "\x00",
        "\ud800",
        unicodedata.normalize("NFD", "금리"),
        "\u0301",
        " ".join(f"금리는 {n}조 원이다." for n in range(8)),
        "\n".join("가나다라마바사"),
        "9" * 40 + "조",
    ]
)
INDEXES = st.integers(-1, 4) | st.sampled_from([True, 1.0, 10**400, float("nan"), "1"])
LEAVES = WORDS | INDEXES | st.none()
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)


def fields(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that mostly have these fields, at times one too few, too many or of another shape."""
    right = st.fixed_dictionaries(strategies, optional={"x": LEAVES})
    odd = st.fixed_dictionaries({}, optional={name: one | VALUES for name, one in strategies.items()})
    return right | right | odd


def times(count: int, inner: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    right = st.lists(inner, min_size=count, max_size=count)
    return right | right | st.lists(inner | VALUES, max_size=count + 1)


ANSWERS = st.one_of(
    fields(summary3=times(3, WORDS), summary_full=WORDS),
    fields(cards=times(3, fields(term=WORDS, highlight_text=WORDS, definition=WORDS))),
    fields(insights=times(3, fields(title=WORDS, detail=WORDS, why_it_matters=WORDS))),
    fields(
        questions=times(
            3,
            fields(
                question=WORDS, options=times(4, WORDS), answer_index=INDEXES, explanations=times(4, WORDS)
            ),
        )
    ),
)
PIECES = st.sampled_from(
    [*'[]{}:,"', '"cards":', '"questions":', "NaN", "1e999", "\\ud800", "```json", "```"]
)
CONTENTS = (
    ANSWERS.map(json.dumps)
    | ANSWERS.map(lambda answer: f" ```json\n{json.dumps(answer, ensure_ascii=False)}\n```")
    | VALUES.map(json.dumps)
    | TEXT
    | st.lists(PIECES | TEXT, max_size=20).map("".join)
)


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@bad_inputs
@given(content=CONTENTS)
@example(content="[" * 100_000)
@example(content='{"cards":' * 100_000)
@example(content='{"questions": ' + "9" * 5_000 + "}")
def test_an_answer_gives_storable_rows_or_breaks_a_rule(kind: ResultKind, content: str) -> None:
    try:
        result = kind.read(content, CLAIM)
    except InvalidOutput as refused:
        code, complaint = refused.code, str(refused)
    else:
        assert_storable(kind.rows(result, CLAIM))
        assert_storable(kind.output(result))
        return
    # Both go into the job's row, the complaint into the second question too.
    assert code in BROKEN_RULES and complaint.encode()
    assert "\x00" not in complaint and len(complaint) < 300


def assert_storable(value: object) -> None:
    if isinstance(value, str):
        assert value.encode() and "\x00" not in value
    elif isinstance(value, list | tuple):
        assert value or isinstance(value, list)
        for part in value:
            assert_storable(part)
    elif isinstance(value, dict):
        assert_storable(list(value.values()))
    else:
        assert type(value) is int and 0 <= value < 2**15


STATUSES = st.integers() | st.integers(100, 600) | LEAVES
LINES = st.builds(
    lambda status, body, error: json.dumps(
        {"custom_id": "a", "response": {"status_code": status, "body": body}, "error": error}
    ).encode(),
    STATUSES,
    st.fixed_dictionaries({"choices": st.lists(VALUES, max_size=2)}) | VALUES,
    st.none() | fields(code=WORDS, message=WORDS) | LEAVES,
)


@bad_inputs
@given(line=LINES, code=TEXT)
def test_every_reason_of_a_line_has_a_verdict(line: bytes, code: str) -> None:
    for reason in read_results(line, None).bad.values():
        verdict = bad_line(reason, code)
        assert verdict.code and verdict.suspend_reason in (None, "QUOTA", "AUTH", "MODEL")
