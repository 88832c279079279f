"""Splits the free ingredient text of a recipe into ingredients, as a model that reads with care would."""

import re
from dataclasses import dataclass, replace

_NEWLINES = re.compile(r"<br\s*/?>|[\r\n\u2028\u2029]+", re.IGNORECASE)
_SERVINGS = re.compile(r"(\d+)\s*인분")
_BRACKETED = re.compile(r"[\[【<〈][^\]】>〉]*[\]】>〉]")
_LABEL = re.compile(r"^[^:：,()\d]{0,15}[:：]")
_BULLETS = " \t-•·ㆍ●○◆■□▶*※"
_HEADINGS = "주재료|부재료|재료|양념장?|소스|드레싱|육수|고명"
_HEADING_BEFORE = re.compile(rf"^(?:{_HEADINGS})\s+(?=[가-힣])")
_HEADING_ALONE = re.compile(rf"(?:{_HEADINGS})\s*")
# Commas, but neither those inside brackets nor those of "1,000".
_COMMAS = re.compile(r"[,，、](?!\d{3}(?!\d))(?![^()]*\))")
_BRACKETS = re.compile(r"\(([^()]*)\)")
_FRACTIONS = {"½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅛": "1/8"}
_SOME = ("약간", "적당량", "적당히", "조금", "소량", "넉넉히")
_AMOUNT = re.compile(
    r"(?P<quantity>\d+\s+\d+\s*/\s*\d+|\d+\s*/\s*\d+|\d[\d,]*(?:\.\d+)?(?:\s*[~∼-]\s*\d+(?:\.\d+)?)?)"
    r"\s*(?P<unit>[a-zA-Z㎖㎏ℓ가-힣]{0,5})\s*$"
)
_WEIGHTS = frozenset({"g", "kg", "mg", "ml", "l", "cc", "㎖", "㎏", "ℓ"})
# Of these the weight says more than the piece.
_MEAT_AND_FISH = re.compile(
    r"고기|닭|돼지|삼겹|목살|안심|등심|갈비|베이컨|생선|고등어|연어|참치|오징어|새우|낙지|문어|주꾸미|조개|"
    r"굴$|대구|동태|갈치|꽃게|전복"
)
_SAME_FOOD = {"계란": "달걀", "쇠고기": "소고기", "파마산치즈": "파르메산치즈", "대파": "파", "쪽파": "파"}
_ATTRIBUTES = re.compile(
    r"^(?:다진|채\s?썬|삶은|데친|말린|불린|볶은|으깬|간\s|잘게 썬|신선한|국산|\d+가지\s?색)\s*(?=\S)"
)
_LEFT_OUT = re.compile(r"선택|생략\s*가능|없어도|기호에 따라")


@dataclass(frozen=True)
class Ingredient:
    """One ingredient; `quantity` is text, so that fractions stay. None: the text does not say."""

    name: str
    quantity: str | None = None
    unit: str | None = None
    note: str | None = None
    optional: bool = False

    @property
    def canonical_name(self) -> str:
        """The food without how it was prepared, under its usual name."""
        bare = _ATTRIBUTES.sub("", self.name).replace(" ", "") or self.name
        return _SAME_FOOD.get(bare, bare)


def ingredients_of(text: str, title: str) -> list[Ingredient]:
    """The ingredients of the text in its order, each food once per unit; titles and headings are none."""
    merged: dict[tuple[str, str | None], Ingredient] = {}
    for line in _NEWLINES.split(text):
        for piece in _COMMAS.split(_without_heading(line, title)):
            found = _ingredient(piece)
            if found is None:
                continue
            key = (found.canonical_name, found.unit)
            merged[key] = _sum(merged[key], found) if key in merged else found
    return list(merged.values())


def servings_in(text: str) -> int | None:
    """The servings that a text states ("2인분")."""
    stated = _SERVINGS.search(text)
    return int(stated[1]) if stated else None


def _without_heading(line: str, title: str) -> str:
    line = _BRACKETED.sub(" ", line).strip(_BULLETS)
    line = _LABEL.sub("", line).strip(_BULLETS)
    is_title = line.replace(" ", "") == title.replace(" ", "")
    return "" if is_title or _HEADING_ALONE.fullmatch(line) else _HEADING_BEFORE.sub("", line)


def _ingredient(piece: str) -> Ingredient | None:
    for sign, fraction in _FRACTIONS.items():
        piece = re.sub(rf"(?<=\d)\s*{sign}", f" {fraction}", piece).replace(sign, fraction)
    inside = [part.strip() for found in _BRACKETS.findall(piece) for part in found.split(",")]
    name, weight = _name_and_amount(_BRACKETS.sub(" ", piece).strip(_BULLETS + "."))
    if not name or not any(letter.isalpha() for letter in name):
        return None
    amounts = [weight] if weight else []
    notes = []
    for part in filter(None, inside):
        rest, amount = _name_and_amount(part)
        if amount and not rest:
            amounts.append(amount)
        else:
            notes.append(part)
    quantity, unit = _preferred(amounts, name) or (None, None)
    left_out = any(_LEFT_OUT.search(note) for note in notes)
    return Ingredient(name, quantity, unit, ", ".join(notes) or None, left_out)


def _name_and_amount(text: str) -> tuple[str, tuple[str, str | None] | None]:
    for word in _SOME:
        if text.endswith(word):
            return text.removesuffix(word).strip(), (word, None)
    found = _AMOUNT.search(text)
    if not found:
        return " ".join(text.split()), None
    quantity = re.sub(r"\s*/\s*", "/", found["quantity"])
    return " ".join(text[: found.start()].split()), (quantity, found["unit"] or None)


def _preferred(amounts: list[tuple[str, str | None]], name: str) -> tuple[str, str | None] | None:
    """Kitchen units before weights, but of meat and fish the weight."""

    def is_weight(amount: tuple[str, str | None]) -> bool:
        return (amount[1] or "").lower() in _WEIGHTS

    wants_weight = bool(_MEAT_AND_FISH.search(name))
    return next((one for one in amounts if is_weight(one) is wants_weight), amounts[0] if amounts else None)


def _sum(first: Ingredient, again: Ingredient) -> Ingredient:
    quantities = (first.quantity or "", again.quantity or "")
    if all(quantity.isdecimal() for quantity in quantities):
        return replace(first, quantity=str(sum(map(int, quantities))))
    return first if first.quantity else again
