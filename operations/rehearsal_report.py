"""A rehearsal as a person reads it: old against new side by side, in a terminal and as Markdown. Pure."""

import unicodedata
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import zip_longest

from assets.economy_news.result_kinds import Row
from operations.rehearsal import Plan, RedoneKind, Rehearsed
from operations.text_tables import escaped, usd

NARROWEST_COLUMN = 24
BETWEEN = " │ "
HEADING = "# Rehearsal of "
"""How every report begins, and nothing else that --output may replace."""

# What only our tables know a result by.
_NOT_SHOWN = {"result_id", "article_id", "term_id", "term_key", "position", "kind", "publishable"}


def plan_lines(plan: Plan, file: str) -> list[str]:
    """What will be asked and what it costs."""
    days = [one.claim.day for one in plan.stored]
    sections = sorted({one.claim.section for one in plan.stored})
    in_force = plan.kind.prompt.version
    versions = f"version {plan.prompt.version}; in force is {in_force}"
    if plan.prompt.version == in_force:
        versions = f"version {in_force}, the one in force"
    room = "there is no cap" if plan.room_usd is None else f"the day's cap leaves {usd(plan.room_usd)} USD"
    return [
        f"{plan.kind.job_type} with {file} ({versions}) and {plan.model}",
        f"{len(plan.stored)} stored articles of {min(days)} to {max(days)}, {', '.join(sections)}",
        f"costs about {usd(plan.about_usd)} USD, at most {usd(plan.at_most_usd)} USD; {room}",
    ]


def article_lines(number: int, one: Rehearsed, width: int) -> list[str]:
    """One article: what readers see now on the left, the rehearsed result on the right."""
    claim, stored = one.stored.claim, one.stored
    width = max(width, 2 * NARROWEST_COLUMN + len(BETWEEN))
    lines = [
        f"{number}. {claim.day} {claim.section}  {_visible(claim.title)}",
        f"   {_visible(stored.url)}",
        *side_by_side(f"before: {_old_price(one)}", f"after: {_new_price(one)}", width),
        "─" * width,
    ]
    if one.problem is not None:
        lines += _wrapped(_visible(one.problem), width)
    for label, old, new in fields(stored.rows, one.rows):
        lines += [f"[{label}]", *side_by_side(old, new, width)]
    return [*lines, ""]


def summary_lines(plan: Plan, rehearsed: Sequence[Rehearsed], redone: Sequence[RedoneKind]) -> list[str]:
    """What all say together: how many results are valid, tokens, and the price of making all again."""
    priced = [(one.stored, one.usage) for one in rehearsed if one.usage is not None and one.usage.calls]
    lines = [
        f"{len(rehearsed)} of {len(plan.stored)} articles: {sum(bool(one.rows) for one in rehearsed)} valid, "
        f"{sum(one.broke_a_rule for one in rehearsed)} break a rule (a run asks those a second time), "
        f"{sum(not one.rows and not one.broke_a_rule for one in rehearsed)} without a result"
    ]
    if any("unsupported_numbers" in row for one in rehearsed for row in (*one.stored.rows, *one.rows)):
        both = [one for one in rehearsed if one.rows]
        before = sum(_has_unsupported(one.stored.rows) for one in both)
        after = sum(_has_unsupported(one.rows) for one in both)
        lines.append(f"not publishable (numbers that the article lacks): {before} before, {after} after")
    if priced:
        count = len(priced)
        old = [sum(stored.input_tokens for stored, _ in priced), sum(one.output_tokens for one, _ in priced)]
        new = [
            sum(usage.input_tokens for _, usage in priced),
            sum(usage.output_tokens for _, usage in priced),
        ]
        was = sum((stored.cost_usd for stored, _ in priced), Decimal(0))
        now = sum((usage.cost_usd for _, usage in priced), Decimal(0))
        lines += [
            f"an article took {_tokens(old[0] // count, old[1] // count)}, {_price(was / count)}",
            f"and takes now {_tokens(new[0] // count, new[1] // count)}, {_price(now / count)}",
            f"this rehearsal cost {_price(now)}",
        ]
    return [*lines, *_redo_lines(plan, redone)]


def markdown(
    plan: Plan, file: str, rehearsed: Sequence[Rehearsed], redone: Sequence[RedoneKind], ended: str | None
) -> str:
    """The whole rehearsal as a Markdown document; `ended` says why it ended early."""
    lines = [f"{HEADING}{escaped(file)}", ""]
    lines += [f"- {escaped(line)}" for line in (*plan_lines(plan, file), *([ended] if ended else []))]
    lines += [f"- {escaped(line)}" for line in summary_lines(plan, rehearsed, redone)]
    for number, one in enumerate(rehearsed, 1):
        claim = one.stored.claim
        lines += [
            "",
            f"## {number}. {_cell(claim.title)}",
            "",
            f"{claim.day} {claim.section}, {_cell(one.stored.url)}",
        ]
        if one.problem is not None:
            lines += ["", f"**{_cell(one.problem)}**"]
        lines += ["", "| | before | after |", "|---|---|---|"]
        rows = [("", _old_price(one), _new_price(one)), *fields(one.stored.rows, one.rows)]
        lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join(lines) + "\n"


def fields(old: Sequence[Row], new: Sequence[Row]) -> Iterator[tuple[str, str, str]]:
    """Label, old text and new text of everything in the rows of two results; empty where one lacks it."""
    nothing: Row = {}
    for number, (before, after) in enumerate(zip_longest(old, new, fillvalue=nothing), 1):
        for name in dict.fromkeys((*after, *before)):
            if name not in _NOT_SHOWN:
                label = name if max(len(old), len(new)) == 1 else f"{number} {name}"
                yield label, _text(before.get(name)), _text(after.get(name))


def side_by_side(left: str, right: str, width: int) -> list[str]:
    """Two texts in columns, wrapped so that no line is wider than `width` columns of a terminal."""
    each = max((width - len(BETWEEN)) // 2, NARROWEST_COLUMN)
    lines = zip_longest(_wrapped(left, each), _wrapped(right, each), fillvalue="")
    return [f"{one}{' ' * (each - _columns(one))}{BETWEEN}{other}".rstrip() for one, other in lines]


def _redo_lines(plan: Plan, redone: Sequence[RedoneKind]) -> list[str]:
    if not plan.outdated:
        return ["in force it would outdate no result"]
    lines = [f"in force it would outdate {plan.outdated:,} results; `redo: outdated` would then make again"]
    for one in redone:
        most = "" if one.job_type is plan.kind.job_type else "up to "
        told = "nothing tells what they cost" if one.usd is None else f"about {_price(one.usd)}"
        lines.append(f"  {one.job_type}: {most}{one.results:,} results, {told}")
    if redone and all(one.usd is not None for one in redone):
        total = sum((one.usd for one in redone if one.usd is not None), Decimal(0))
        in_batch = _price(total * plan.batch_share)
        lines.append(f"  together about {_price(total)} asked at once, {in_batch} in batch mode")
    return lines


def _has_unsupported(rows: Sequence[Row]) -> bool:
    return any(row.get("unsupported_numbers") for row in rows)


def _old_price(one: Rehearsed) -> str:
    stored = one.stored
    tokens = _tokens(stored.input_tokens, stored.output_tokens)
    return f"{stored.model}, prompt {stored.prompt_version}, {tokens}, {_price(stored.cost_usd)}"


def _new_price(one: Rehearsed) -> str:
    if one.usage is None:
        return "not answered; it may have been charged"
    return f"{_tokens(one.usage.input_tokens, one.usage.output_tokens)}, {_price(one.usage.cost_usd)}"


def _tokens(given: int, output: int) -> str:
    return f"{given:,} + {output:,} tokens"


def _price(amount: Decimal) -> str:
    return f"{usd(amount)} USD"


def _text(value: object) -> str:
    """A field's value, the entries of a list as lines of their own."""
    if isinstance(value, list | tuple):
        return "\n".join(f"- {one}" for one in value)
    return "" if value is None else str(value)


def _visible(text: str) -> str:
    """On one line and without what steers a terminal: control, direction and other invisible characters."""
    shown = (" " if unicodedata.category(one)[0] in "CZ" else one for one in text)
    return " ".join("".join(shown).split())


def _cell(text: str) -> str:
    return "<br>".join(escaped(_visible(line)) for line in text.splitlines())


def _wrapped(text: str, width: int) -> list[str]:
    return [part for line in text.splitlines() for part in _parts(_visible(line), width)]


def _parts(line: str, width: int) -> Iterator[str]:
    """The line in parts of at most `width` columns, broken at spaces where there are some."""
    part = ""
    for word in line.split(" "):
        joined = f"{part} {word}" if part else word
        if _columns(joined) <= width:
            part = joined
            continue
        if part:
            yield part
        while _columns(word) > width:
            fits = next(end for end in range(len(word), 0, -1) if _columns(word[:end]) <= width)
            yield word[:fits]
            word = word[fits:]
        part = word
    yield part


def _columns(text: str) -> int:
    """How many columns of a terminal the text takes: Korean letters take two each, combining marks none."""
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1
        for one in text
    )
