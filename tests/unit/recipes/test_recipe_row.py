"""What a row of the source states as fields: title, steps in order, nutrition, images, tips."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.recipes.recipe_row import NUTRITION_FIELDS, Step, raw_hash, read_row
from local_stack.recipe_api.recipes import FIELDS, recipe_rows
from tests.bad_inputs import bad_inputs

ORIGIN = "https://recipes.example"
PICTURE = f"{ORIGIN}/uploadimg/cook/1.png"


def image(address: str, origin: str = ORIGIN) -> str | None:
    return read_row({"ATT_FILE_NO_MK": address}, origin).image_url


def test_a_row_is_read_field_by_field() -> None:
    recipe = read_row(
        {
            "RCP_NM": " 들깨  두부탕 ",
            "RCP_WAY2": "끓이기",
            "RCP_PAT2": "국&찌개",
            "INFO_ENG": "142",
            "INFO_CAR": "9.5",
            "INFO_NA": "0",
            "RCP_NA_TIP": "들깻가루는\n마지막에 넣는다.",
        },
        ORIGIN,
    )
    assert (recipe.title, recipe.method, recipe.kind) == ("들깨 두부탕", "끓이기", "국&찌개")
    assert recipe.nutrition == {"kcal": 142.0, "carbohydrate_g": 9.5, "sodium_mg": 0.0}
    assert recipe.tips == "들깻가루는 마지막에 넣는다."
    assert (recipe.image_url, recipe.steps) == (None, ())


def test_an_empty_row_states_nothing() -> None:
    recipe = read_row({}, ORIGIN)
    assert (recipe.title, recipe.kind, recipe.method, recipe.tips) == ("", None, None, None)
    assert (recipe.nutrition, recipe.image_url, recipe.steps) == ({}, None, ())


def test_steps_keep_their_order_and_images_and_gaps_are_closed() -> None:
    recipe = read_row(
        {
            "MANUAL10": "10. 그릇에 담는다.",
            "MANUAL01": "1. 새우를 씻어 건진다.a",
            "MANUAL02": " ",
            "MANUAL_IMG02": PICTURE,
            "MANUAL03": "3. 1.5컵의 물을 붓는다.",
            "MANUAL_IMG03": PICTURE,
        },
        ORIGIN,
    )
    assert recipe.steps == (
        Step("새우를 씻어 건진다.", None),
        Step("1.5컵의 물을 붓는다.", PICTURE),
        Step("그릇에 담는다.", None),
    )


@pytest.mark.parametrize("number", ["", "-", "약 20", "1e5", "NaN", "-3", "12.34567", "9" * 50, "12kcal"])
def test_what_is_no_plain_number_is_no_nutrition(number: str) -> None:
    assert read_row(dict.fromkeys(NUTRITION_FIELDS, number), ORIGIN).nutrition == {}


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("http://other.example/a.png", "http://other.example/a.png"),
        (f" {PICTURE} ", PICTURE),
        ("/uploadimg/cook/1.png", PICTURE),
        ("/other/1.png", None),
        ("//other.example/a.png", None),
        ("../uploadimg/step.png", None),
        ("uploadimg/cook/1.png", None),
        ("javascript:void(0)", None),
        ("data:image/png;base64,AAAA", None),
        ("ftp://other.example/a.png", None),
        ("http://", None),
        ("http://[::1/a.png", None),
        ("http://other.example/a b.png", None),
        ("http://other.example/a\nb.png", None),
        ("http://other.example/\x00.png", None),
        ("이미지 준비중", None),
        ("", None),
    ],
)
def test_an_image_is_absolute_or_of_the_source_or_none(address: str, kept: str | None) -> None:
    assert image(address) == kept


def test_the_origin_may_end_in_a_slash() -> None:
    assert image("/uploadimg/cook/1.png", f"{ORIGIN}/") == PICTURE


def test_the_large_image_goes_before_the_small_unless_it_is_none() -> None:
    small, large = f"{ORIGIN}/small.png", f"{ORIGIN}/large.png"
    both = {"ATT_FILE_NO_MAIN": small, "ATT_FILE_NO_MK": large}
    assert read_row(both, ORIGIN).image_url == large
    assert read_row({**both, "ATT_FILE_NO_MK": "준비중"}, ORIGIN).image_url == small


def test_the_hash_changes_with_any_value_and_with_nothing_else() -> None:
    row = {"RCP_SEQ": "31", "RCP_NM": "두부찜", "MANUAL01": "찐다."}
    assert raw_hash(row) == raw_hash(dict(reversed(row.items())))
    others = [{**row, "MANUAL01": "찐다. "}, {**row, "MANUAL02": ""}, {"RCP_SEQ": "31", "RCP_NM": "두부찜"}]
    assert len({raw_hash(one) for one in (row, *others)}) == 4


def test_no_step_of_the_stand_in_keeps_its_number_or_its_stray_letter() -> None:
    steps = [step.content for row in recipe_rows() for step in read_row(row, ORIGIN).steps]
    assert len(steps) > 200
    assert not [step for step in steps if (step[0].isdigit() and step[1:3] == ". ") or step[-1] in "abc"]


TEXT = st.text(max_size=30) | st.sampled_from(["<br>1. ", "&#0;", "\ud800", "/uploadimg/", "http://[", "1.5"])


@bad_inputs
@given(row=st.dictionaries(st.sampled_from(FIELDS), st.lists(TEXT, max_size=3).map("".join), max_size=12))
def test_any_row_is_read_into_texts_that_every_store_takes(row: dict[str, str]) -> None:
    recipe = read_row(row, ORIGIN)
    steps = [text for step in recipe.steps for text in (step.content, step.image_url)]
    for text in (recipe.title, recipe.kind, recipe.method, recipe.image_url, recipe.tips, *steps):
        (text or "").encode()
        assert text is None or ("\x00" not in text and "\n" not in text)
    assert all(step.content for step in recipe.steps)
    assert set(recipe.nutrition) <= set(NUTRITION_FIELDS.values())
    assert len(raw_hash(row)) == 64
