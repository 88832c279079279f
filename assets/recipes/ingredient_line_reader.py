"""One line of the source's ingredient text, taken apart into ingredients and heads, from left to right."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from assets.recipes.ingredient_quantity import AMOUNT, SERVINGS, SIZE, Amount, read_amount

BULLETS = "●○■□◆◇▶▷◎※★☆•∙▪◦"
HEADS = frozenset(
    re.findall(
        r"\w+",
        """재료 주재료 부재료 필수재료 선택재료 추가재료 기본재료 속재료 소스재료 양념재료 육수재료
        양념 양념장 밑간 소스 고명 육수 국물 드레싱 반죽 토핑 곁들임 장식""",
    )
)
# Never an ingredient, so that they need neither sign nor line: `재료 두부 1모`. But `국물 멸치` is a food.
_ONLY_HEADS = frozenset(head for head in HEADS if head.endswith("재료")) | {"양념장", "고명"}
_ENDS_OF_HEADS = ("재료", "양념", "양념장", "소스", "육수", "국물", "반죽", "드레싱", "고명")

_FOR_SERVINGS = r"\d{1,3}(?: ?[~-] ?\d{1,3})? ?인분(?: ?(?:기준|분량|재료))?(?![가-힣])"
_TOKEN = re.compile(
    rf"\((?P<parenthesis>[^()]*)\)|\[(?P<bracket>[^\[\]]*)\]|(?P<size>{SIZE})|(?P<servings>{_FOR_SERVINGS})"
    rf"|{AMOUNT}|(?P<colon>(?<!\d):|:(?!\d))"
    rf"|(?P<separator>[,;·・{BULLETS}]|(?<!\d)/(?! ?\d)|(?<!\S)\*(?=\D))"
)
_AMOUNT = re.compile(AMOUNT)
_SERVINGS = re.compile(rf" *{_FOR_SERVINGS} *")
_PART = re.compile(r"[,;](?!\d{3}(?!\d))")
_MARKS = " .,:;=/~+-–—'\"`"


@dataclass(slots=True)
class Entry:
    """An ingredient or a head as far as it was read; `tail` has the words behind an amount."""

    words: list[str] = field(default_factory=list)
    parts: list[Amount | str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    is_head: bool = False
    has_amount: bool = False

    @property
    def name(self) -> str:
        return " ".join(self.words)

    def add(self, *parts: Amount | str) -> None:
        """Takes amounts and remarks as its own."""
        self.parts += parts
        self.has_amount = self.has_amount or any(isinstance(part, Amount) for part in parts)


def read_entries(line: str) -> list[Entry]:
    """The ingredients and heads of a line of plain text with single spaces; none where it says nothing."""
    # Balanced, it may have two spaces where a bracket was.
    return _Reader(" ".join(balanced(line).split())).entries


def balanced(line: str) -> str:
    """The line with no bracket that lacks its other half, and none inside another: those become commas."""
    partner = _partners(line)
    pieces: list[str] = []
    outermost_end = -1
    for index, character in enumerate(line):
        if character not in "([])":
            pieces.append(character)
        elif index not in partner:
            pieces.append("," if character == "[" else " ")
        elif index >= outermost_end:
            pieces.append(character)
            outermost_end = max(outermost_end, partner[index])
        else:
            pieces.append("," if character in "([" else " ")
    return "".join(pieces)


def _partners(line: str) -> dict[int, int]:
    """For each bracket that has another half, where that one is."""
    partners: dict[int, int] = {}
    open_at: list[int] = []
    opened = {"(": 0, "[": 0}
    for index, character in enumerate(line):
        if character in opened:
            open_at.append(index)
            opened[character] += 1
        elif character in ")]" and opened[opening := "(" if character == ")" else "["]:
            while line[open_at[-1]] != opening:
                opened[line[open_at.pop()]] -= 1
            opened[opening] -= 1
            start = open_at.pop()
            partners |= {start: index, index: start}
    return partners


class _Reader:
    def __init__(self, line: str) -> None:
        self.entries: list[Entry] = []
        self._now = Entry()
        self._tokens = list(_TOKEN.finditer(line))
        position = 0
        for index, token in enumerate(self._tokens):
            self._text(line[position : token.start()])
            self._token(token, index)
            position = token.end()
        self._text(line[position:])
        self._finish()

    def _token(self, token: re.Match[str], index: int) -> None:
        if token["parenthesis"] is not None:
            self._parenthesis(token["parenthesis"])
        elif token["bracket"] is not None:
            self._bracket(token["bracket"])
        elif token["separator"]:
            self._finish()
        elif token["colon"]:
            if not self._only_amounts_follow(index):
                self._head_of_words()
        elif token["size"]:
            self._now.add(token["size"])
        elif token["servings"]:
            if self._now.words:  # `밥 1인분`; in front of everything it is for whom, not how much
                self._now.add(_servings(token["servings"]))
        else:
            self._amounts(read_amount(token))

    def _text(self, text: str) -> None:
        if text := text.strip(_MARKS):
            now = self._now
            (now.tail if now.has_amount and now.words else now.words).append(text)

    def _amounts(self, *amounts: Amount | str) -> None:
        # `양파 10g 당근 20g`: words between two amounts are a name, unless they say what was done.
        if self._now.tail and not self._now.tail[-1].endswith(("것", "용")):
            tail, self._now.tail = self._now.tail, []
            self._finish()
            self._now = Entry(tail)
        self._now.add(*amounts)

    def _parenthesis(self, content: str) -> None:
        now = self._now
        if _SERVINGS.fullmatch(content):
            if _compact(now.words) in HEADS:
                self._head_of_words()
            elif now.words:
                now.add(_servings(content.strip()))
            return
        if not self.entries and not now.words and not now.parts and content.rstrip().endswith(_ENDS_OF_HEADS):
            self._head(content)
            return
        parts = [part for piece in _PART.split(content) for part in _read_part(piece)]
        if any(isinstance(part, Amount) for part in parts):
            self._amounts(*parts)
        else:
            now.add(*parts)

    def _bracket(self, content: str) -> None:
        if self._now.words and not self._now.has_amount:
            self._parenthesis(content)
            return
        self._finish()
        if not _SERVINGS.fullmatch(content):
            self._head(" ".join(part for part in _PART.split(content) if not _SERVINGS.fullmatch(part)))

    def _only_amounts_follow(self, colon: int) -> bool:
        """Whether a colon stands between a name and its amount, as in `설탕: 2큰술`."""
        end, line = self._tokens[colon].end(), self._tokens[colon].string
        for index in range(colon + 1, len(self._tokens)):
            token = self._tokens[index]
            if line[end : token.start()].strip() or token["colon"] or token["bracket"] is not None:
                return False
            if token["separator"]:
                return index > colon + 1
            end = token.end()
        return colon + 1 < len(self._tokens) and not line[end:].strip(_MARKS)

    def _head_of_words(self) -> None:
        """Makes the words read last the head; an ingredient with an amount before or in them stays one."""
        now = self._now
        words = now.tail or now.words
        is_ingredient = bool(now.tail) or any(
            isinstance(part, Amount) and part.unit != SERVINGS for part in now.parts
        )
        now.tail = []
        if is_ingredient:
            self._finish()
        self._now = Entry()
        self._head(" ".join(words))

    def _head(self, name: str) -> None:
        if name := name.strip(_MARKS):
            self.entries.append(Entry([name], is_head=True))

    def _finish(self) -> None:
        now, self._now = self._now, Entry()
        now.add(*now.tail)
        if not now.words:
            self._without_a_name(now)
            return
        first, _, rest = now.name.partition(" ")
        if _compact(now.words) in _ONLY_HEADS and not now.parts:
            now.is_head = True
        elif first in _ONLY_HEADS and rest and not self.entries:
            self.entries.append(Entry([first], is_head=True))
            now.words = [rest]
        self.entries.append(now)

    def _without_a_name(self, now: Entry) -> None:
        """A name in parentheses, `(간장) 10g`; else what a comma parted from the ingredient before it."""
        first = now.parts[0] if now.parts else None
        if isinstance(first, str) and now.has_amount and not any(map(str.isdigit, first)):
            self.entries.append(Entry([first], now.parts[1:], has_amount=True))
        elif self.entries and not self.entries[-1].is_head:
            self.entries[-1].add(*now.parts)


def _read_part(text: str) -> Sequence[Amount | str]:
    """The amounts of which a part of a parenthesis consists (`4컵=800g`), else the part as a remark."""
    text = text.strip(_MARKS)
    found = list(_AMOUNT.finditer(text))
    between = _AMOUNT.sub("", text)
    if found and not any(character.isalnum() for character in between):
        return [read_amount(match) for match in found]
    return [text] if text else []


def _servings(text: str) -> Amount:
    return Amount(text.partition(SERVINGS)[0].strip().replace(" ", "").replace("-", "~"), SERVINGS, text)


def _compact(words: Sequence[str]) -> str:
    return "".join(words).replace(" ", "")
