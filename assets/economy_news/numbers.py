"""Numbers of a Korean text, normalised, so that a summary's can be looked for in its article.

`1조 2,000억원`, `1.2조원` and `1,200,000,000,000` are one number; `3.50%` and `3.5퍼센트` are another.
"""

import re
from decimal import Decimal

_UNITS = {
    "천조": Decimal(10) ** 15,
    "조": Decimal(10) ** 12,
    "천억": Decimal(10) ** 11,
    "억": Decimal(10) ** 8,
    "천만": Decimal(10) ** 7,
    "백만": Decimal(10) ** 6,
    "만": Decimal(10) ** 4,
    "천": Decimal(10) ** 3,
}
# Bounded, so that a page of digits is no arithmetic of a million places.
_DIGITS = r"\d{1,3}(?:,\d{3}){1,8}(?:\.\d{1,12})?|\d{1,24}(?:\.\d{1,12})?"
_AMOUNT = re.compile(
    rf"(?P<number>{_DIGITS})\s?(?P<unit>천조|천억|천만|백만|조|억|만|천)?(?P<percent>\s?(?:%포인트|%p|%|퍼센트|％))?"
)


def numbers_in(text: str) -> list[tuple[str, str]]:
    """Every number of the text as (normalised, as written), in order.

    Normalised is a plain decimal without trailing zeros, followed by `%` where it is a percentage.
    """
    found: list[tuple[str, str]] = []
    parts: list[re.Match[str]] = []
    for match in _AMOUNT.finditer(text):
        if parts and not _continues(parts[-1], match, text):
            found.append(_amount(parts, text))
            parts = []
        parts.append(match)
    return [*found, _amount(parts, text)] if parts else found


def missing_numbers(summary: str, body: str) -> list[str]:
    """The summary's numbers, as written there, that the body does not have; empty where all occur."""
    known = {normalised for normalised, _ in numbers_in(body)}
    return [written for normalised, written in numbers_in(summary) if normalised not in known]


def _continues(before: re.Match[str], match: re.Match[str], text: str) -> bool:
    """Whether the part belongs to the amount before it: 3조 | 4,500억, 5만 | 3000."""
    gap = text[before.end() : match.start()]
    if not before["unit"] or before["percent"] or gap not in ("", " "):
        return False
    if match["unit"]:
        return _UNITS[match["unit"]] < _UNITS[before["unit"]]
    # A bare rest has the digits that the unit leaves open; "3만 5개" is two numbers.
    return len(match["number"].replace(",", "")) >= 3 and _value(match) < _UNITS[before["unit"]]


def _value(match: re.Match[str]) -> Decimal:
    return Decimal(match["number"].replace(",", "")) * (_UNITS[match["unit"]] if match["unit"] else 1)


def _amount(parts: list[re.Match[str]], text: str) -> tuple[str, str]:
    plain = format(sum(map(_value, parts), Decimal(0)).normalize(), "f")
    written = text[parts[0].start() : parts[-1].end()].strip()
    return plain + ("%" if parts[-1]["percent"] else ""), written
