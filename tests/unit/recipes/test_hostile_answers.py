"""Generated answers with vectors, and generated amounts: what was asked for, or a refusal without content."""

import json
import math
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assets.recipes.embedding import DIMENSIONS, UnusableVector, vector_of
from assets.recipes.ingredient_quantity import (
    AMOUNT,
    Amount,
    amount_that_counts,
    is_weighed,
    plain,
    read_amount,
)
from tests.bad_inputs import bad_inputs

RIGHT = [0.01] * DIMENSIONS
TEXT = st.text(st.characters(), max_size=10)  # lone surrogates included
NUMBERS = (
    st.floats()
    | st.integers(-2, 2)
    | st.sampled_from([10**400, -(10**400), 1e308, -1e308, 1e-320, math.nan, math.inf, True, 1e29, 1e31])
)
VALUES = st.recursive(
    TEXT | NUMBERS | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def with_odd_places(places: dict[int, Any], cut: int) -> list[Any]:
    return [places.get(index, number) for index, number in enumerate(RIGHT)][:cut]


VECTORS = st.builds(
    with_odd_places,
    st.dictionaries(st.integers(0, DIMENSIONS - 1), NUMBERS | VALUES, max_size=4),
    st.sampled_from([DIMENSIONS, DIMENSIONS, DIMENSIONS, DIMENSIONS - 1, 0]),
) | NUMBERS.map(lambda number: [number] * DIMENSIONS)
ENTRIES = st.fixed_dictionaries({"embedding": VECTORS | VALUES}, optional={"index": VALUES}) | VALUES
BODIES = st.fixed_dictionaries({}, optional={"data": st.lists(ENTRIES, max_size=2) | VALUES, "usage": VALUES})


@bad_inputs
@given(body=BODIES | st.fixed_dictionaries({"data": st.tuples(ENTRIES).map(list)}))
@example(body={"data": [{"embedding": [10**400] * DIMENSIONS}]})
@example(body={"data": [{"embedding": [True] * DIMENSIONS}]})
@example(body={"data": [{"embedding": [0.0] * DIMENSIONS}]})
@example(body={"data": [{"embedding": [1e300] * DIMENSIONS}]})
def test_an_answer_is_one_vector_that_can_be_compared_or_unusable(body: dict[str, Any]) -> None:
    try:
        vector = vector_of(body)
    except UnusableVector as refused:
        reason = str(refused)
    else:
        assert_comparable(vector)
        return
    assert reason in ("vector: length", "vector: numbers")


def assert_comparable(vector: list[float]) -> None:
    assert len(vector) == DIMENSIONS and all(type(number) in (int, float) for number in vector)
    assert all(math.isfinite(number) for number in vector) and 0 < math.hypot(*vector) < 1e30


@pytest.mark.parametrize("number", [0.5, 1, -1])
def test_what_comes_as_json_is_the_same_vector(number: float) -> None:
    assert (
        vector_of(json.loads(json.dumps({"data": [{"embedding": [number] * DIMENSIONS}]})))
        == [number] * DIMENSIONS
    )


PIECES = [
    *(
        "1",
        "30",
        "1/2",
        "1 1/2",
        "½",
        "1½",
        "⅓",
        "3/",
        "/4",
        " / ",
        "1,000",
        "1.5",
        "0",
        "007",
        "9" * 30,
        "٣",
        "²",
        "①",
    ),
    *("g", "kg", "ml", "T", "Ts", "cm", "큰술", "작은술", "컵", "개", "인분", "모", "쪽", "대파", "당근"),
    *("~", "-", "∼", "×", "x", "*", "·", "ㆍ", "(", ")", ",", " ", "\n", "+", ":", "%", "°"),
    *("약간", "적당량", "기호에 따라", "반", "한", "두", "각", "각각", "약", "총", "씩", "정도", "과", "와"),
    *("닭고기", "생선", "멸치액젓", "두부", "\x00", "\u2028", "\ufeff", "\ud83d"),
]
AMOUNTS = st.lists(st.sampled_from(PIECES) | TEXT, max_size=14).map("".join)
NUMBER = r"\d{1,7}(?:\.\d{1,4})?|(?:\d{1,4} )?\d{1,3}/\d{1,3}"
QUANTITY = re.compile(rf"(?:{NUMBER})(?:~(?:{NUMBER}))?(?: 1/2)?|1/2")


@bad_inputs
@given(text=AMOUNTS, name=AMOUNTS)
@example(text="30g 1½컵 약간 2~3큰술 한 줌 1과1/2컵반", name="닭고기")
@example(text="두부 1 / 2모", name="두부")
@example(text="1" * 50 + "/" + "2" * 50 + "컵", name="")
def test_any_text_has_amounts_that_are_written_in_it(text: str, name: str) -> None:
    tidy = plain(text)
    assert plain(tidy) == tidy
    amounts = [read_amount(match) for match in re.finditer(AMOUNT, tidy)]
    for amount in amounts:
        assert amount.written in tidy and amount.quantity and amount.unit != ""
        assert QUANTITY.fullmatch(amount.quantity) or not any(map(str.isdigit, amount.quantity))
    counted = amount_that_counts(name, amounts)
    assert (counted in amounts) if amounts else counted is None
    cup, grams = Amount("1", "컵", "1컵"), Amount("30", "g", "30g")
    assert amount_that_counts(name, [cup, grams]) == (grams if is_weighed(name) else cup)
    assert is_weighed(f"{name} 닭살") and not is_weighed(f"{name}소스")


@bad_inputs
@given(quantity=TEXT.filter(bool), unit=st.none() | TEXT.filter(bool), name=TEXT)
def test_of_any_amounts_one_counts(quantity: str, unit: str | None, name: str) -> None:
    amounts = [Amount("1", "g", "1g"), Amount(quantity, unit, quantity), Amount("1", "컵", "1컵")]
    assert amount_that_counts(name, amounts) in amounts
