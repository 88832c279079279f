"""Free ingredient texts of the source: what each of the contract's hard lines gives, and that none fails."""

import re
import sys
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.recipes.ingredient_line import parse_ingredient_lines, steps_text
from tests.bad_inputs import bad_inputs

Line = tuple[str, str | None, str | None, str | None, str | None]


def parsed(text: str) -> list[Line]:
    return [
        (line.name, line.quantity, line.unit, line.note, line.group) for line in parse_ingredient_lines(text)
    ]


def only(text: str) -> Line:
    (line,) = parsed(text)
    return line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("연두부 75g(3/4모)", ("연두부", "3/4", "모", "75g", None)),
        ("칵테일새우 20g(5마리)", ("칵테일새우", "20", "g", "5마리", None)),
        ("닭고기(가슴살, 120g)", ("닭고기", "120", "g", "가슴살", None)),
        ("소고기(등심, 얇게 썬 것) 100g", ("소고기", "100", "g", "등심, 얇게 썬 것", None)),
        ("2가지색 파프리카 100g", ("2가지색 파프리카", "100", "g", None, None)),
        ("밥 180", ("밥", "180", None, None, None)),
        ("물 300ml(1½컵)", ("물", "1 1/2", "컵", "300ml", None)),
        ("소금 약간", ("소금", "약간", None, None, None)),
    ],
)
def test_a_hard_line_of_the_contract_survives(text: str, expected: Line) -> None:
    assert only(text) == expected


def test_a_title_line_is_the_group_of_what_follows() -> None:
    assert parsed("새우두부계란찜\n연두부 75g(3/4모), 칵테일새우 20g(5마리)") == [
        ("연두부", "3/4", "모", "75g", "새우두부계란찜"),
        ("칵테일새우", "20", "g", "5마리", "새우두부계란찜"),
    ]


def test_a_repeated_title_is_no_ingredient() -> None:
    repeated = "버섯 전골\n버섯전골\n표고 30g\n버섯 전골\n두부 1모\n버섯전골"
    assert parsed(repeated) == [
        ("표고", "30", "g", None, "버섯전골"),
        ("두부", "1", "모", None, "버섯 전골"),
    ]


@pytest.mark.parametrize(
    "text", ["●양념장 :", "[2인분]", "[ 2인분 ]", "(4인분)", "2인분 기준<br>", "재료", "고명"]
)
def test_a_head_or_servings_alone_give_no_ingredient(text: str) -> None:
    assert parsed(text) == []


@pytest.mark.parametrize(
    ("head", "group"),
    [
        ("●양념장 :\n", "양념장"),
        ("●양념장\n", "양념장"),
        ("·양념장 : ", "양념장"),
        ("[소스]", "소스"),
        ("【소스】\n", "소스"),
        ("- 양념 :\n", "양념"),
        ("* 양념：", "양념"),
        ("재료 : ", "재료"),
        ("재료\n", "재료"),
        ("재료(4인분)\n", "재료"),
        ("재료 ", "재료"),
        ("고명\n", "고명"),
        ("•[추가 재료] ", "추가 재료"),
        ("[소스소개] 탕수소스:", "탕수소스"),
        ("[소스소개 초절임물:", "소스소개 초절임물"),
        ("(속재료)", "속재료"),
        ("[소스(2인분)]", "소스"),
    ],
)
def test_a_head_in_any_form_is_the_group_of_what_follows(head: str, group: str) -> None:
    assert parsed(f"{head}설탕 5g(1작은술), 식초 약간") == [
        ("설탕", "1", "작은술", "5g", group),
        ("식초", "약간", None, None, group),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "무 10g, 마늘(10g) 육수: 물(300g), 파 5g",
        "무 10g, 마늘 10g 육수 : 물 300g, 파 5g",
        "무 10g, 마늘 10g[육수] 물 300g, 파 5g",
        "무 10g, 마늘 10g ●육수: 물 300g, 파 5g",
        "무 10g, 마늘 10g *육수:물 300g, 파 5g",
        "무 10g, 마늘 10g\n육수\n물 300g, 파 5g",
    ],
)
def test_a_head_within_a_line_ends_the_ingredient_before_it(text: str) -> None:
    assert parsed(text) == [
        ("무", "10", "g", None, None),
        ("마늘", "10", "g", None, None),
        ("물", "300", "g", None, "육수"),
        ("파", "5", "g", None, "육수"),
    ]


def test_a_head_that_has_an_amount_is_an_ingredient_too() -> None:
    assert parsed("닭 육수 2컵: 닭뼈 100g") == [
        ("닭 육수", "2", "컵", None, None),
        ("닭뼈", "100", "g", None, "닭 육수"),
    ]
    assert parsed("완자(2인분) : 두부 1모") == [("두부", "1", "모", None, "완자")]


def test_servings_in_front_are_dropped_and_behind_a_name_are_an_amount() -> None:
    assert parsed("[1인분]돌나물 50g") == [("돌나물", "50", "g", None, None)]
    assert parsed("2인분 기준\n감자 1개") == [("감자", "1", "개", None, None)]
    assert only("밥 1인분") == ("밥", "1", "인분", None, None)
    assert only("우동면 400g(2인분)") == ("우동면", "400", "g", "2인분", None)


def test_a_name_alone_is_an_ingredient_unless_something_makes_it_a_title() -> None:
    assert parsed("소금\n후추") == [("소금", None, None, None, None), ("후추", None, None, None, None)]
    assert parsed("무 1개\n소금\n물 1컵")[1] == ("소금", None, None, None, None)
    assert parsed("무 1개, 배 1개\n겉절이\n배추 1포기, 파 1대")[2] == ("배추", "1", "포기", None, "겉절이")
    assert parsed("무 1개, 배 1개,\n소금\n물 1컵")[2:] == [
        ("소금", None, None, None, None),
        ("물", "1", "컵", None, None),
    ]
    assert parsed("무 1개, 배 1개\n참깨")[2] == ("참깨", None, None, None, None)
    assert parsed("떡 200g\n육수")[1] == ("육수", None, None, None, None)
    assert only("멸치 육수 2컵") == ("멸치 육수", "2", "컵", None, None)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("무 1개,배 2개", ["무", "배"]),
        ("무 1개，배 2개、파 1대", ["무", "배", "파"]),
        ("무 1개<br>배 2개<BR/>파 1대<br />", ["무", "배", "파"]),
        ("무 1개&lt;br&gt;배 2개&nbsp;&amp;", ["무", "배"]),
        ("무 1개\r\n배 2개\r파 1대\u2028콩 3알\x85밤 1톨", ["무", "배", "파", "콩", "밤"]),
        ("무·배・파ㆍ콩", ["무", "배", "파", "콩"]),
        ("소금/후추 약간", ["소금", "후추"]),
        ("무 1/2개 / 배 1/4개", ["무", "배"]),
        ("①무 1개 ②배 1개", ["무", "배"]),
        ("1. 무 1개\n2) 배 1개\n(3) 파 1대", ["무", "배", "파"]),
        ("- 무 1개\n– 배 1개", ["무", "배"]),
        ("무 10g 배 20g 파 30g", ["무", "배", "파"]),
        ("무10g배20g", ["무", "배"]),
        ("무(채 썬 것, 10g),배 1개", ["무", "배"]),
        ("무(채 썬 것,\n10g), 배 1개", ["무", "배"]),
        ("<b>무</b> 1개", ["무"]),
        ("무 1개;배 1개", ["무", "배"]),
    ],
)
def test_ingredients_are_parted(text: str, names: list[str]) -> None:
    assert [line.name for line in parse_ingredient_lines(text)] == names


@pytest.mark.parametrize(
    ("amount", "quantity", "unit"),
    [
        ("2~3큰술", "2~3", "큰술"),
        ("2큰술~3큰술", "2~3", "큰술"),
        ("2-3개", "2~3", "개"),
        ("½~1개", "1/2~1", "개"),
        ("1/2개", "1/2", "개"),
        ("½개", "1/2", "개"),
        ("1 / 2 개", "1/2", "개"),
        ("1½컵", "1 1/2", "컵"),
        ("1과1/2컵", "1 1/2", "컵"),
        ("1컵 반", "1 1/2", "컵"),
        ("반 모", "1/2", "모"),
        ("한줌", "1", "줌"),
        ("0.5g", "0.5", "g"),
        ("0.02", "0.02", None),
        ("1,000ml", "1000", "ml"),
        ("３００㎖", "300", "ml"),
        ("1㎏", "1", "kg"),
        ("1.5L", "1.5", "L"),
        ("200cc", "200", "cc"),
        ("2T", "2", "T"),
        ("2t", "2", "t"),
        ("2Ts", "2", "Ts"),
        ("1스푼", "1", "스푼"),
        ("약 1/4컵", "1/4", "컵"),
        ("10g 정도", "10", "g"),
        ("각 25g씩", "25", "g"),
        ("적당량", "적당량", None),
        ("기호에 따라", "기호에 따라", None),
    ]
    + [
        (f"3{unit}", "3", unit)
        for unit in re.findall(
            r"\w+",
            "작은술 꼬집 줌 장 쪽 대 줄기 마리 봉지 봉 캔 알 톨 뿌리 포기 조각 토막 송이 공기 팩 병 단",
        )
    ],
)
def test_an_amount_is_read_behind_a_name_and_in_parentheses(
    amount: str, quantity: str, unit: str | None
) -> None:
    note = "각" if amount.startswith("각") else None
    assert only(f"양파 {amount}") == ("양파", quantity, unit, note, None)
    if not amount.startswith(("반", "한")):
        assert only(f"양파({amount})") == ("양파", quantity, unit, note, None)
    assert parsed(f"양파 {amount}, 무 1개")[0] == ("양파", quantity, unit, note, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("물(4컵=800g)", ("물", "4", "컵", "800g", None)),
        ("고추장 30g/2큰술", ("고추장", "2", "큰술", "30g", None)),
        ("마늘 15(3개)", ("마늘", "3", "개", "15", None)),
        ("양파 10g(3×1cm)", ("양파", "10", "g", "3×1cm", None)),
        ("대파 2g(1cm)", ("대파", "2", "g", "1cm", None)),
        ("다시마(5×5cm, 2장)", ("다시마", "2", "장", "5×5cm", None)),
        ("황태(채) 15g(10개)", ("황태", "15", "g", "채, 10개", None)),
        ("갈치(70g(1토막))", ("갈치", "70", "g", "1토막", None)),
        ("소금 1g(약간)", ("소금", "1", "g", "약간", None)),
        ("대파 1대 다진 것", ("대파", "1", "대", "다진 것", None)),
        ("소면(분홍, 흰색) 각 25g", ("소면", "25", "g", "분홍, 흰색, 각", None)),
        ("채소국물(물 200, 무 15)", ("채소국물", None, None, "물 200, 무 15", None)),
        ("설탕: 2큰술", ("설탕", "2", "큰술", None, None)),
        ("(냉동) 완두콩 10g", ("완두콩", "10", "g", "냉동", None)),
        ("100g 버터", ("버터", "100", "g", None, None)),
        ("닭고기[가슴살] 120g", ("닭고기", "120", "g", "가슴살", None)),
        ("닭고기(가슴살, 120g", ("닭고기 가슴살", "120", "g", None, None)),
        ("물 1컵, 200ml", ("물", "1", "컵", "200ml", None)),
        ("(간장) 10g", ("간장", "10", "g", None, None)),
        ("설탕과 물 1:1", ("설탕과 물 1:1", None, None, None, None)),
        ("100% 메밀면 80g", ("100% 메밀면", "80", "g", None, None)),
        ("2대파 1개", ("2대파", "1", "개", None, None)),
    ],
)
def test_what_is_not_the_amount_stays_in_the_name_or_the_note(text: str, expected: Line) -> None:
    assert only(text) == expected


@pytest.mark.parametrize("name", ["소고기", "다진 돼지고기", "닭다리살", "오징어", "생굴", "꽃게", "고등어"])
def test_the_weight_of_meat_fish_and_seafood_is_kept(name: str) -> None:
    assert only(f"{name} 80g(2조각)") == (name, "80", "g", "2조각", None)
    assert only(f"{name} 2조각") == (name, "2", "조각", None, None)


@pytest.mark.parametrize(
    "name", ["새우젓", "멸치액젓", "닭육수", "굴소스", "참치캔", "오리알", "콩고기", "오리엔탈드레싱"]
)
def test_what_is_made_from_them_or_sounds_like_them_has_its_kitchen_unit(name: str) -> None:
    assert only(f"{name} 80g(2개)") == (name, "2", "개", "80g", None)


@pytest.mark.parametrize(
    ("step", "cleaned"),
    [
        ("1. 두부를 체로 건진다.a", "두부를 체로 건진다."),
        ("2. 믹서에 간다.b\n", "믹서에 간다."),
        ("3. 노릇하게 굽는다. (c)", "노릇하게 굽는다."),
        ("4. 그릇에 담는다d", "그릇에 담는다"),
        ("5) 소금으로\n  밑간을   한다.", "소금으로 밑간을 한다."),
        ("6.썬다.", "썬다."),
        ("7. 1.5컵의 물을 붓는다.", "1.5컵의 물을 붓는다."),
        ("1.5컵의 물을 붓는다.", "1.5컵의 물을 붓는다."),
        ("10분 정도 찐다.", "10분 정도 찐다."),
        ("레몬에는 비타민C", "레몬에는 비타민C"),
        ("레몬에는 비타민 C", "레몬에는 비타민 C"),
        ("물을 붓는다. 1L", "물을 붓는다. 1L"),
        ("1½컵을\x00 붓는다.<br>끓인다.", "1½컵을 붓는다. 끓인다."),
        ("8.", ""),
        ("", ""),
    ],
)
def test_a_step_loses_its_number_and_its_stray_letter(step: str, cleaned: str) -> None:
    assert steps_text(step) == cleaned


PIECES = [
    *[
        "(",
        ")",
        "[",
        "]",
        "（",
        "】",
        ",",
        "，",
        ":",
        "：",
        "/",
        "·",
        "●",
        "-",
        "*",
        "~",
        "=",
        "×",
        " ",
        "\n",
    ],
    *[
        "새우두부계란찜",
        "닭고기",
        "소금",
        "고명",
        "재료",
        "양념장",
        "2가지색",
        "인분",
        "기준",
        "것",
        "각",
        "반",
    ],
    *["1", "20", "½", "1½", "⅟", "1/2", "1,000", "0.", ".5", "99999999999", "g", "ml", "큰술", "컵", "약간"],
    *["&#0;", "&#xD800;", "&#9" + "9" * 5000 + ";", "&nbsp", "<br>", "<", "</p", "\x00", "\u2028", "\ud800"],
    *["\ufdfa", "①", "ㆍ", "\u200b", "\U0001f990", unicodedata.normalize("NFD", "감자")],
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(st.characters(), max_size=5), max_size=40).map("".join)


@pytest.mark.parametrize("text", ["고명 (두부", "고명((두부", "고명 ( 두부", "고명) 두부"])
def test_a_bracket_without_its_other_half_leaves_no_space_around_a_name(text: str) -> None:
    assert parsed(text) == [("두부", None, None, None, "고명")]
    assert only("표고 (느타리 ((두부 10g") == ("표고 느타리 두부", "10", "g", None, None)


@bad_inputs
@given(text=TEXTS)
def test_any_text_gives_ingredients_that_every_store_takes(text: str) -> None:
    for line in parse_ingredient_lines(text):
        assert line.name and line.name == " ".join(line.name.split())
        assert not (line.unit and not line.quantity)
        for value in (line.name, line.quantity, line.unit, line.note, line.group):
            assert value is None or (value and "\n" not in value and "\x00" not in value)
            (value or "").encode()
            assert unicodedata.is_normalized("NFKC", value or "")


@bad_inputs
@given(text=TEXTS)
def test_any_step_is_one_line_that_every_store_takes(text: str) -> None:
    cleaned = steps_text(text)
    cleaned.encode()
    assert cleaned == " ".join(cleaned.split()) and "\x00" not in cleaned
    assert unicodedata.is_normalized("NFC", cleaned)


@bad_inputs
@given(
    names=st.lists(
        st.sampled_from(["양파", "다진 마늘", "2가지색 파프리카", "닭고기"]), min_size=1, max_size=6
    ),
    separator=st.sampled_from([", ", ",", "\n", "<br>", " · ", "，", " / "]),
    amount=st.sampled_from([" 100g", "(1/2개)", " 1½컵", " 약간", "(다진 것, 3큰술)"]),
)
def test_a_well_formed_list_gives_its_names(names: list[str], separator: str, amount: str) -> None:
    text = separator.join(name + amount for name in names)
    assert [line.name for line in parse_ingredient_lines(text)] == names
    assert len({(line.quantity, line.unit) for line in parse_ingredient_lines(text)}) == 1


def steps_taken(work: Callable[[str], object], text: str) -> int:
    """How many lines of Python the work runs: what a clock would say, without the clock."""
    taken = 0

    def count(frame: object, event: str, argument: object) -> object:
        nonlocal taken
        taken += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)  # type: ignore[arg-type]
    try:
        work(text)
    finally:
        sys.settrace(before)
    return taken


HOSTILE = [
    *[
        "(",
        "()",
        "((a",
        "[",
        "[a]",
        "(]",
        "a:",
        "a:1g",
        "a:(1g)",
        "1 ",
        "1/",
        "1 1/2",
        "1,000,",
        "가1g ",
        "2인분 ",
    ],
    *[
        "가\n",
        "가,\n",
        "(a\n",
        "[재료] ",
        "고명 ",
        "가 1큰",
        "&#1",
        "<b ",
        "2큰술~",
        "1과1/2컵반",
        "각 ",
        "½",
        "가(나)",
    ],
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_twice_the_hostile_text_takes_twice_the_steps(unit: str) -> None:
    short, long = (steps_taken(parse_ingredient_lines, unit * (size // len(unit))) for size in (2_000, 4_000))
    assert long <= 2.2 * short + 200


# What the steps do not show is within the regular expressions: one of them that goes back over what it has
# read would not end here.
@pytest.mark.parametrize("unit", ["(", "(a\n", "1 ", "1 1/2", "2큰술~", "가 1큰", "&#1", "<b "])
def test_a_hundred_kilobytes_of_hostile_text_are_read(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    assert all(line.name for line in parse_ingredient_lines(text))
    cleaned = steps_text(text)
    assert cleaned == " ".join(cleaned.split())
