"""The invented recipes of `recipes.jsonl` as rows of the API: 55 fields, all text, empty where there is none.

A line of the file holds the fields that are not empty, with these shortened: `INFO` (weight, kcal,
carbohydrate, protein, fat, sodium, with slashes between), `MANUAL` (the steps, an empty one is a gap) and
`images`: which addresses the row has (both, main only, none, relative, or bad ones).
"""

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

STEPS = 20
_INFO = ("INFO_WGT", "INFO_ENG", "INFO_CAR", "INFO_PRO", "INFO_FAT", "INFO_NA")
_STEP_TEXTS = tuple(f"MANUAL{number:02}" for number in range(1, STEPS + 1))
_STEP_IMAGES = tuple(f"MANUAL_IMG{number:02}" for number in range(1, STEPS + 1))
FIELDS = (
    *("RCP_SEQ", "RCP_NM", "RCP_WAY2", "RCP_PAT2", *_INFO, "HASH_TAG"),
    *("ATT_FILE_NO_MAIN", "ATT_FILE_NO_MK", "RCP_PARTS_DTLS"),
    *(name for pair in zip(_STEP_TEXTS, _STEP_IMAGES, strict=True) for name in pair),
    "RCP_NA_TIP",
)
_IMAGES = "http://recipes.example/uploadimg/cook/"
_FOLDERS = {"both": _IMAGES, "main": _IMAGES, "relative": "/uploadimg/cook/"}

Row = dict[str, str]


def recipe_rows() -> list[Row]:
    """All recipes in the API's order, a fresh copy for each caller."""
    text = files(__package__).joinpath("recipes.jsonl").read_bytes().decode()
    return [_row(json.loads(line)) for line in text.split("\n") if line]


def _row(short: dict[str, Any]) -> Row:
    given = {name: short[name] for name in FIELDS if name in short}
    nutrition = zip(_INFO, short["INFO"].split("/"), strict=False)
    steps = short["MANUAL"]
    texts = zip(_STEP_TEXTS, steps, strict=False)
    images = _images(short["RCP_SEQ"], short.get("images", "both"), len(steps))
    return dict.fromkeys(FIELDS, "") | given | dict(nutrition) | dict(texts) | dict(images)


def _images(seq: str, which: str, steps: int) -> Iterator[tuple[str, str]]:
    if which == "bad":
        yield "ATT_FILE_NO_MAIN", "이미지 준비중"
        yield "ATT_FILE_NO_MK", "javascript:void(0)"
        yield "MANUAL_IMG01", "../uploadimg/step.png"
    elif which in _FOLDERS:
        yield "ATT_FILE_NO_MAIN", f"{_FOLDERS[which]}small_{seq}.png"
        yield "ATT_FILE_NO_MK", f"{_FOLDERS[which]}large_{seq}.png"
        if which != "main":
            for number, name in enumerate(_STEP_IMAGES[:steps], start=1):
                yield name, f"{_FOLDERS[which]}{seq}_{number}.png"
