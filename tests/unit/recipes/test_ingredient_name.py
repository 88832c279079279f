"""The form in which names of ingredients are compared."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.recipes.ingredient_name import normalised
from assets.recipes.ingredient_quantity import plain
from tests.bad_inputs import bad_inputs


@pytest.mark.parametrize(
    ("written", "spelled"),
    [
        ("1½컵", "1 1/2컵"),
        ("½컵", "1/2컵"),
        ("⅓ ¼ ⅔ ¾ ⅛ ⅞ ⅐ ⅑ ⅒", "1/3 1/4 2/3 3/4 1/8 7/8 1/7 1/9 1/10"),
        ("1⁄2모", "1/2모"),
        ("１/２모", "1/2모"),
        ("⅟4개", "1/4개"),
        ("300㎖", "300ml"),
        ("2〜3개", "2~3개"),
    ],
)
def test_fractions_are_spelled_out_before_nfkc(written: str, spelled: str) -> None:
    assert plain(written) == spelled


@pytest.mark.parametrize(
    ("name", "compared"),
    [
        ("연두부 75g(3/4모)", "연두부"),
        ("닭고기(가슴살, 120g)", "닭고기"),
        ("소고기(등심, 얇게 썬 것) 100g", "소고기"),
        ("소고기（등심）１００ｇ", "소고기"),
        ("물 300ml(1½컵)", "물"),
        ("물 1½컵", "물"),
        ("물 1과1/2컵", "물"),
        ("밥 180", "밥"),
        ("밥180", "밥"),
        ("밥 180 200", "밥"),
        ("소금 약간", "소금"),
        ("소금적당량", "소금"),
        ("마늘 2~3쪽", "마늘"),
        ("고추장 2T/30g", "고추장"),
        ("양배추 한 줌", "양배추"),
        ("100g 버터", "버터"),
        ("다진 마늘", "다진마늘"),
        ("A1 Sauce", "a1sauce"),
        ("갈치(70g(1토막))", "갈치"),
        ("닭고기(가슴살", "닭고기"),
        ("가슴살) 닭고기", "가슴살닭고기"),
        ("고추[청양]", "고추"),
        ("(저염) 간장", "간장"),
        ("(간장)", "간장"),
        (unicodedata.normalize("NFD", "새우젓"), "새우젓"),
    ],
)
def test_parentheses_amounts_and_spaces_are_dropped(name: str, compared: str) -> None:
    assert normalised(name) == compared


@pytest.mark.parametrize(
    ("name", "compared"),
    [
        ("2가지색 파프리카", "2가지색파프리카"),
        ("2가지색 파프리카 100g", "2가지색파프리카"),
        ("3색 소면(분홍, 초록) 25g", "3색소면"),
        ("오메가3 달걀", "오메가3달걀"),
        ("7분도미", "7분도미"),
        ("100% 메밀면 200g", "100%메밀면"),
        ("2대파", "2대파"),
    ],
)
def test_a_number_that_belongs_to_the_name_stays(name: str, compared: str) -> None:
    assert normalised(name) == compared


@pytest.mark.parametrize("name", ["", "  ", "100g", "1½컵", "약간", "()", "((", ")", "(100g)", "·"])
def test_nothing_but_an_amount_is_no_name(name: str) -> None:
    assert normalised(name) == ""


@bad_inputs
@given(name=st.text(st.characters(), max_size=60) | st.text("12½/ (（)]가g모약간,", max_size=40))
def test_any_text_has_a_form_without_spaces_and_parentheses(name: str) -> None:
    compared = normalised(name)
    assert not any(character.isspace() or character in "()" for character in compared)
    assert unicodedata.is_normalized("NFKC", compared)
