"""The form in which names of ingredients are compared."""

import re
import unicodedata

from assets.recipes.ingredient_quantity import AMOUNT, plain

_AMOUNT = re.compile(AMOUNT)
_OPENING = dict(zip("([{〔【〈《「『", ")]}〕】〉》」』", strict=True))
_CLOSING = frozenset(_OPENING.values())
_AT_THE_ENDS = " .,:;·•●○*~/=+-_'\"`"


def normalised(name: str) -> str:
    """The name without parentheses, amounts and spaces, in NFKC and lower case; empty for an amount alone.

    `½` and the like become `1/2` before NFKC, which would make `11⁄2` of `1½`; a whole number before one is
    kept apart by a space. A number that belongs to the name stays: `2가지색 파프리카` is `2가지색파프리카`, a
    number without a unit counts as an amount only at the end. Where all of a name stands in parentheses,
    their content is the name.
    """
    text = " ".join(plain(name).split())
    bare = _without_amounts(_outside_brackets(text)) or _without_amounts(_brackets_opened(text))
    # Once more NFKC: what spaces had kept apart may compose.
    return unicodedata.normalize("NFKC", "".join(bare.lower().split()))


def _outside_brackets(text: str) -> str:
    """What stands outside brackets of any kind; one that is not closed reaches to the end."""
    kept: list[str] = []
    depth = 0
    for character in text:
        if character in _OPENING:
            depth += 1
            kept.append(" ")
        elif character in _CLOSING:
            depth = max(0, depth - 1)
        elif not depth:
            kept.append(character)
    return " ".join("".join(kept).split())


def _brackets_opened(text: str) -> str:
    return " ".join("".join(" " if c in _OPENING or c in _CLOSING else c for c in text).split())


def _without_amounts(text: str) -> str:
    kept: list[str] = []
    end = len(text)
    for match in reversed(list(_AMOUNT.finditer(text))):
        at_the_end = not kept and not text[match.end() : end].strip(_AT_THE_ENDS)
        if at_the_end or not match["bare"]:
            if not at_the_end:
                kept.append(text[match.end() : end])
            end = match.start()
    return " ".join([text[:end], *reversed(kept)]).strip(_AT_THE_ENDS)
