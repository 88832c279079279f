"""Fills sentence patterns with invented names and numbers, with Korean particles that fit.

Belongs here: the grammar of `stories.json` and `vocabulary.json`. Not here: which articles a day has.

A pattern holds `{slot}` (a name that stays the same within one text, or a fresh number), `{slot:은}` (with
a particle that fits the last syllable) and `[a|b]` or `[a|b]:은` (one of the wordings).
"""

import json
import re
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

_SLOT = re.compile(r"\{(\w+)(?::(\w+))?\}")
_CHOICE = re.compile(r"\[([^\[\]]*\|[^\[\]]*)\](?::(은|이|을|과|으로))?")
_ORDINAL = re.compile(r"\d+$")

# After a final consonant, after a vowel.
_PARTICLES = {
    "은": ("은", "는"),
    "이": ("이", "가"),
    "을": ("을", "를"),
    "과": ("과", "와"),
    "으로": ("으로", "로"),
    "이다": ("이다", "다"),
    "이며": ("이며", "며"),
    "이고": ("이고", "고"),
    "였고": ("이었고", "였고"),
    "이었다": ("이었다", "였다"),
}
_DIGITS_ENDING_IN_A_CONSONANT = "013678"
_ENDING_IN_RIEUL = "178"


@cache
def vocabulary() -> dict[str, Any]:
    """Names, presses, finance terms and paragraphs that suit every section."""
    loaded: dict[str, Any] = json.loads(Path(__file__).with_name("vocabulary.json").read_text("utf-8"))
    return loaded


def with_particle(word: str, particle: str) -> str:
    """The word with the form of the particle that its last sound asks for; other endings are appended."""
    if particle not in _PARTICLES:
        return word + particle
    closed, rieul = _final_sound(word)
    after_consonant, after_vowel = _PARTICLES[particle]
    if particle == "으로" and rieul:
        return word + after_vowel
    return word + (after_consonant if closed else after_vowel)


def _final_sound(word: str) -> tuple[bool, bool]:
    last = word[-1]
    if "가" <= last <= "힣":
        jongseong = (ord(last) - ord("가")) % 28
        return jongseong != 0, jongseong == 8
    return last in _DIGITS_ENDING_IN_A_CONSONANT, last in _ENDING_IN_RIEUL


def finance_terms_in(text: str) -> set[str]:
    """The finance terms of the vocabulary that occur in a text; no term is part of another."""
    return {term for term in vocabulary()["terms"] if term in text}


class Writer:
    """Writes the sentences of one text: names stay the same throughout, numbers are new each time."""

    def __init__(self, rng: Random, day: date) -> None:
        self._rng = rng
        self._day = day
        self._chosen: dict[str, str] = {}
        self._announced: dict[str, list[str]] = {}
        self._rising = rng.random() < 0.5

    def write(self, pattern: str) -> str:
        """The pattern with every choice made and every slot filled. Raises KeyError for an unknown slot."""
        return _SLOT.sub(self._fill, _CHOICE.sub(self._choose, pattern))

    def announce(self, pattern: str) -> str:
        """The same for a title: the numbers it names are the first that the following text uses."""
        announced: dict[str, list[str]] = {}

        def fill(match: re.Match[str]) -> str:
            filled = self._fill(match)
            if match[1] in _NUMBERS and not match[2]:
                announced.setdefault(match[1], []).append(filled)
            return filled

        title = _SLOT.sub(fill, _CHOICE.sub(self._choose, pattern))
        self._announced = announced
        return title

    def reporter(self) -> str:
        return f"{self._person()} 기자"

    def _choose(self, match: re.Match[str]) -> str:
        wordings = match[1].split("|")
        wording = self._rng.choice(wordings)
        # Rise or fall is decided once, so that a title and its text do not contradict each other.
        rising = [one in vocabulary()["rising"] for one in wordings]
        if sorted(rising) == [False, True]:
            wording = wordings[rising.index(self._rising)]
        return with_particle(wording, match[2]) if match[2] else wording

    def _fill(self, match: re.Match[str]) -> str:
        slot, particle = match[1], match[2]
        value = self._number(slot) if slot in _NUMBERS else self._name(slot)
        return with_particle(value, particle) if particle else value

    def _number(self, slot: str) -> str:
        announced = self._announced.get(slot)
        return announced.pop(0) if announced else _NUMBERS[slot](self._rng, self._day)

    def _name(self, slot: str) -> str:
        if slot not in self._chosen:
            kind = _ORDINAL.sub("", slot)
            taken = set(self._chosen.values())
            if kind in ("person", "analyst"):
                self._chosen[slot] = self._person()
            else:
                names: list[str] = vocabulary()["names"][kind]
                free = [name for name in names if name not in taken]
                self._chosen[slot] = self._rng.choice(free)
        return self._chosen[slot]

    def _person(self) -> str:
        family: str = self._rng.choice(vocabulary()["family_names"])
        given: str = self._rng.choice(vocabulary()["given_names"])
        return family + given


def _jo(rng: Random, _: date) -> str:
    trillions, hundred_millions = rng.randint(1, 48), rng.choice([0, *range(100, 10000, 100)])
    return f"{trillions}조{hundred_millions}억원" if hundred_millions else f"{trillions}조원"


def _man(rng: Random, _: date) -> str:
    ten_thousands, rest = rng.randint(1, 89), rng.choice([0, *range(500, 10000, 500)])
    return f"{ten_thousands}만{rest}원" if rest else f"{ten_thousands}만원"


def _bigeok(rng: Random, _: date) -> str:
    hundred_millions, rest = rng.randint(2, 24), rng.choice([0, *range(500, 10000, 500)])
    return f"{hundred_millions}억{rest}만원" if rest else f"{hundred_millions}억원"


def _basis_points(rng: Random, _: date) -> str:
    return f"{rng.randrange(5, 80, 5)}bp"


_NUMBERS: dict[str, Callable[[Random, date], str]] = {
    "pct": lambda rng, _: f"{rng.randint(0, 9)}.{rng.randint(1, 9)}%",
    "bigpct": lambda rng, _: f"{rng.randint(11, 68)}.{rng.randint(1, 9)}%",
    "yield": lambda rng, _: f"{rng.randint(2, 4)}.{rng.randint(100, 999)}%",
    "bp": _basis_points,
    "eok": lambda rng, _: f"{rng.randint(110, 9890)}억원",
    "bigeok": _bigeok,
    "jo": _jo,
    "man": _man,
    "man2": lambda rng, _: f"{rng.randint(210, 980)}만원",
    "won": lambda rng, _: f"{rng.randrange(1200, 9900, 50)}원",
    "fx": lambda rng, _: f"{rng.randint(1290, 1460)}.{rng.randint(1, 9)}원",
    "kospi": lambda rng, _: f"{rng.randint(2450, 3240)}.{rng.randint(10, 99)}",
    "kosdaq": lambda rng, _: f"{rng.randint(720, 960)}.{rng.randint(10, 99)}",
    "ratio": lambda rng, _: str(rng.randint(95, 240)),
    "n": lambda rng, _: str(rng.randint(2, 9)),
    "tens": lambda rng, _: str(rng.randint(11, 89)),
    "count": lambda rng, _: f"{rng.randint(110, 4900):,}",
    "month": lambda _, day: str(day.month),
    "day": lambda _, day: str(day.day),
    "quarter": lambda _, day: str((day.month - 1) // 3 + 1),
}
