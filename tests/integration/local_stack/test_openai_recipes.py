"""Parsed recipes from the OpenAI stand-in: made from the raw row that is asked about."""

import json
from typing import Any

import pytest

from local_stack.openai_stand_in.ingredient_lines import ingredients_of
from tests.integration.local_stack.openai_asking import (
    Served,
    batch_lines,
    fenced,
    request,
    results,
    run_batch,
)

TEXT, MAYBE = {"type": "string"}, {"type": ["string", "null"]}
RULES = """원문 레시피를 읽고 정해진 형식으로 답한다.
레시피 카테고리: 밥·죽, 국·찌개, 밑반찬, 일품요리, 디저트
재료 카테고리: 채소, 해산물, 유제품, 양념, 기타
카테고리는 목록에서 고르고, 맞는 것이 없으면: 새로 제안한다."""
ROW = {
    "RCP_SEQ": "9001",
    "RCP_NM": "두부 새우찜",
    "RCP_WAY2": "찌기",
    "RCP_PAT2": "반찬",
    "INFO_ENG": "220",
    "RCP_PARTS_DTLS": "두부 새우찜\n[2인분]\n두부 150g(1/2모), 칵테일새우 60g(6마리), 계란 2개\n"
    "●양념장 :\n물 300ml(1½컵), 소금 약간",
    "MANUAL01": "1. 두부를 으깨고 새우는 10분 동안 물에 담가 둔다.",
    "MANUAL02": "2. 모두 섞어 김이 오른 찜기에서 15분간 찐다.",
    "MANUAL03": "3. 한 김 식힌다.",
    "RCP_NA_TIP": "새우 대신 게살도 좋다.",
}


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


INGREDIENT = closed(
    name=TEXT,
    canonical_name=TEXT,
    category=TEXT,
    quantity=MAYBE,
    unit={"anyOf": [TEXT, {"type": "null"}]},
    optional={"type": "boolean"},
    note=MAYBE,
)
RECIPE = closed(
    title=TEXT,
    description=TEXT,
    category=TEXT,
    servings={"type": "integer"},
    difficulty={"type": "integer", "minimum": 1, "maximum": 3},
    cooking_time_minutes={"type": "integer", "minimum": 5, "maximum": 180},
    tips=MAYBE,
    ingredients={"type": "array", "items": {"$ref": "#/$defs/ingredient"}},
    parse_confidence={"type": "string", "enum": ["high", "medium", "low"]},
    parse_issues={"type": "array", "items": TEXT},
) | {"$defs": {"ingredient": INGREDIENT}}


def body(row: dict[str, Any], shape: dict[str, Any] = RECIPE) -> dict[str, Any]:
    asked = request("parsed_recipe", fenced(recipe=json.dumps(row, ensure_ascii=False)), shape)
    asked["messages"][0]["content"] = RULES
    asked["response_format"]["json_schema"]["strict"] = True
    return asked


def parsed(served: Served, row: dict[str, Any], shape: dict[str, Any] = RECIPE) -> Any:
    completion = served.client.chat.completions.create(**body(row, shape))
    return json.loads(completion.choices[0].message.content or "")


def test_a_recipe_is_read_from_its_row(stand_in: Served) -> None:
    recipe = parsed(stand_in, ROW)
    assert recipe["title"] == "두부 새우찜" and recipe["description"].endswith("요.")
    assert (recipe["category"], recipe["servings"]) == ("밑반찬", 2)
    assert (recipe["difficulty"], recipe["cooking_time_minutes"]) == (2, 25)
    assert recipe["tips"] == "새우 대신 게살도 좋다."
    assert [
        (one["name"], one["canonical_name"], one["quantity"], one["unit"]) for one in recipe["ingredients"]
    ] == [
        ("두부", "두부", "1/2", "모"),
        ("칵테일새우", "칵테일새우", "60", "g"),
        ("계란", "달걀", "2", "개"),
        ("물", "물", "1 1/2", "컵"),
        ("소금", "소금", "약간", None),
    ]
    assert [one["category"] for one in recipe["ingredients"][1:2]] == ["해산물"]
    assert (recipe["parse_confidence"], recipe["parse_issues"]) == ("high", [])
    assert recipe == parsed(stand_in, ROW)


@pytest.mark.parametrize(
    ("parts", "confidence"),
    [
        ("두부 1모, 소금 약간", "high"),
        ("두부 1모, 파 2대, 깨", "medium"),
        ("두부, 파, 간장 1큰술", "low"),
        ("두부, 파", "low"),
        ("", "low"),
    ],
)
def test_a_recipe_without_amounts_is_read_with_low_confidence(
    stand_in: Served, parts: str, confidence: str
) -> None:
    recipe = parsed(stand_in, {**ROW, "RCP_PARTS_DTLS": parts})
    assert recipe["parse_confidence"] == confidence
    assert bool(recipe["parse_issues"]) is (confidence != "high")


@pytest.mark.parametrize(
    ("title", "kind", "category"),
    [
        ("호박죽", "밥", "밥·죽"),
        ("무국", "국&찌개", "국·찌개"),
        ("감자전", "일품", "일품요리"),
        ("된장찌개", "기타", "국·찌개"),
        ("딸기 모찌", "간식", "간식"),
    ],
)
def test_a_category_is_one_of_the_offered_or_proposed(
    stand_in: Served, title: str, kind: str, category: str
) -> None:
    assert parsed(stand_in, {**ROW, "RCP_NM": title, "RCP_PAT2": kind})["category"] == category


def test_categories_may_also_be_offered_in_blocks_or_as_a_list(stand_in: Served) -> None:
    ask = body({**ROW, "RCP_NM": "호박죽", "RCP_PAT2": "밥", "RCP_PARTS_DTLS": "호박 1개, 새우 3마리"})
    row = ask["messages"][1]["content"]
    blocks = fenced(recipe_categories="국, 밥류", ingredient_categories="바다 해산물, 밭 채소")
    bullets = "레시피 카테고리:\n- 국\n- 밥류\n재료 카테고리:\n- 바다 해산물\n- 밭 채소\n"
    for rules, said in (("category: 고른다", f"{blocks}\n\n{row}"), (bullets, row)):
        ask["messages"] = [{"role": "system", "content": rules}, {"role": "user", "content": said}]
        content = stand_in.client.chat.completions.create(**ask).choices[0].message.content
        recipe = json.loads(content or "")
        assert recipe["category"] == "밥류"
        assert [one["category"] for one in recipe["ingredients"][:2]] == ["밭 채소", "바다 해산물"]


def test_whatever_the_schema_asks_is_filled_in(stand_in: Served) -> None:
    odd = closed(
        recipe=closed(
            category={"type": "string", "enum": ["국", "밑반찬"]},
            tips={"type": "array", "items": TEXT},
            ingredients={"type": "array", "maxItems": 1, "items": closed(name=TEXT, emoji=TEXT)},
            difficulty={"type": "integer", "maximum": 1},
            spiciness={"type": "integer", "minimum": 0, "maximum": 5},
        )
    )
    recipe = parsed(stand_in, ROW, odd)["recipe"]
    assert (recipe["category"], recipe["difficulty"]) == ("밑반찬", 1)
    assert recipe["tips"] == ["새우 대신 게살도 좋다."]
    assert [one["name"] for one in recipe["ingredients"]] == ["두부"] and recipe["ingredients"][0]["emoji"]
    assert 0 <= recipe["spiciness"] <= 5


@pytest.mark.parametrize(
    "row",
    [
        {"RCP_NM": ""},
        {"RCP_NM": None, "RCP_PARTS_DTLS": 3},
        {"RCP_NM": "국", "INFO_ENG": "nan", "RCP_PARTS_DTLS": "),(( 1/ ,½,,"},
        {"RCP_NM": "국", "INFO_ENG": "1e999", "MANUAL01": "9" * 30 + "시간"},
    ],
)
def test_a_poor_row_is_answered_in_the_shape_too(stand_in: Served, row: dict[str, Any]) -> None:
    recipe = parsed(stand_in, row)
    assert set(recipe) == set(RECIPE["properties"]) and recipe["servings"] >= 1


def test_lines_of_a_batch_are_read_as_direct_calls_are_and_a_quantity_can_come_as_a_number(
    stand_in: Served,
) -> None:
    stand_in.fault(contains="9002", content="number_for_text")
    rows = [ROW, {**ROW, "RCP_SEQ": "9002"}]
    batch = run_batch(stand_in, batch_lines(2, lambda number: body(rows[number])))
    good, spoiled = (
        json.loads(line["response"]["body"]["choices"][0]["message"]["content"])
        for line in results(stand_in, batch.output_file_id)
    )
    assert good == parsed(stand_in, ROW)
    assert [one["quantity"] for one in spoiled["ingredients"]] == [0.5, "60", "2", "1 1/2", "약간"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("닭고기(가슴살, 120g)", [("닭고기", "120", "g", "가슴살")]),
        ("소고기(등심, 얇게 썬 것) 100g", [("소고기", "100", "g", "등심, 얇게 썬 것")]),
        ("2가지색 파프리카 100g", [("2가지색 파프리카", "100", "g", None)]),
        ("밥 180", [("밥", "180", None, None)]),
        ("물 1,000ml, 고추 2~3개", [("물", "1,000", "ml", None), ("고추", "2~3", "개", None)]),
        ("재료 간장 1큰술, 간장 2큰술", [("간장", "3", "큰술", None)]),
        (
            "- 소스 : 꿀 1 1/2큰술<br>고명\n깨 약간",
            [("꿀", "1 1/2", "큰술", None), ("깨", "약간", None, None)],
        ),
        ("참깨(생략 가능) 적당량", [("참깨", "적당량", None, "생략 가능")]),
    ],
)
def test_ingredients_are_split_from_free_text(text: str, found: list[tuple[Any, ...]]) -> None:
    assert [(one.name, one.quantity, one.unit, one.note) for one in ingredients_of(text, "찜")] == found
