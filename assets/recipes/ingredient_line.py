"""The ingredients of a recipe, read from the free text in which the source has them (RCP_PARTS_DTLS).

There is no grammar. Lists are parted by commas, lines or bullets; titles and heads of groups stand between
them with or without a sign; an amount stands behind the name, in parentheses, or both. Nothing is an error:
what cannot be told apart stays in the name or the note.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assets.recipes.ingredient_line_reader import HEADS, Entry, read_entries
from assets.recipes.ingredient_quantity import Amount, amount_that_counts, plain
from assets.recipes.source_text import readable
from assets.recipes.source_text import steps_text as steps_text

_CIRCLED = re.compile("[①-⒇㉠-㉭]")  # bullets; NFKC would make a 1 of ①
_SIGNS = str.maketrans(
    dict.fromkeys("【〔〖〈《「『", "[") | dict.fromkeys("】〕〗〉》」』", "]") | {"、": ",", ">": ":"}
)
_LIST_MARK = re.compile(r"[-–—*+ ]*(?:\(?\d{1,2} ?[.)](?!\d) ?)?")
_BROKEN_PARENTHESIS = re.compile(r"\(([^()\n]{0,100})\n([^()\n]{0,100})\)")


@dataclass(frozen=True, slots=True)
class IngredientLine:
    """One ingredient as the text has it.

    `quantity` is text (`1 1/2`, `2~3`, `약간`) and `unit` as written; `note` has whatever else stood with it,
    a second amount included; `group` is the title or head under which it stands.
    """

    name: str
    quantity: str | None = None
    unit: str | None = None
    note: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class _Line:
    entries: list[Entry]
    continues: bool  # the line before ended in a comma

    @property
    def is_list(self) -> bool:
        return sum(not entry.is_head for entry in self.entries) > 1

    @property
    def lone_name(self) -> str | None:
        """The name that is all of the line: a title, or an ingredient without an amount."""
        entry = self.entries[0]
        if len(self.entries) > 1 or self.continues or entry.is_head or entry.parts:
            return None
        return entry.name.replace(" ", "")


def parse_ingredient_lines(text: str) -> list[IngredientLine]:
    """The ingredients in the order of the text, each under the title or head that stands last before it.

    A line that is one name alone is a title where it is the first and ingredients follow, where it repeats
    the title, or where other lines are lists; else it is an ingredient. `[2인분]` and `2인분 기준` are
    nothing. Of two amounts, the one in a kitchen unit counts; for meat, fish and seafood (shrimps included)
    the weight. The other one stands in the note. Texts are NFKC and storable. Any text is read, in time
    linear in it.
    """
    lines = list(_read_lines(text))
    lists = any(line.is_list for line in lines)
    headed = [index for index, line in enumerate(lines) if line.is_list or line.entries[-1].has_amount]
    last = headed[-1] if headed else -1
    found: list[IngredientLine] = []
    group = title = None
    for index, line in enumerate(lines):
        if name := line.lone_name:
            is_first = title is None and group is None and not found
            if name == title or (index < last and (is_first or lists or name in HEADS)):
                title = name if is_first else title
                group = line.entries[0].name
                continue
        for entry in line.entries:
            if entry.is_head:
                group = entry.name
            else:
                found.append(_ingredient(entry, group))
    return found


def _read_lines(text: str) -> Iterator[_Line]:
    tidy = plain(_CIRCLED.sub("●", readable(text))).translate(_SIGNS)
    continues = False
    for written in _BROKEN_PARENTHESIS.sub(r"(\1 \2)", tidy).split("\n"):
        if not (line := " ".join(written.split())):
            continue
        if entries := read_entries(_LIST_MARK.sub("", line, count=1)):
            yield _Line(entries, continues)
        continues = line.endswith(",")


def _ingredient(entry: Entry, group: str | None) -> IngredientLine:
    amounts = [part for part in entry.parts if isinstance(part, Amount)]
    amount = amount_that_counts(entry.name, amounts)
    if amount is None:
        return IngredientLine(entry.name, note=_note(entry.parts), group=group)
    chosen = (amount.quantity, amount.unit)
    others = [part for part in entry.parts if isinstance(part, str) or (part.quantity, part.unit) != chosen]
    note = _note([*others, "각"] if amount.each else others)
    return IngredientLine(entry.name, amount.quantity, amount.unit, note, group)


def _note(parts: Sequence[Amount | str]) -> str | None:
    return ", ".join(part if isinstance(part, str) else part.written for part in parts) or None
