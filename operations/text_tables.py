"""Tables and amounts as the commands show them: aligned for a terminal, as Markdown for the UI. Pure."""

from collections.abc import Sequence
from decimal import Decimal


def usd(amount: Decimal) -> str:
    """The amount with two decimals, with four below a dollar, where cents tell nothing."""
    return f"{amount:,.2f}" if abs(amount) >= 1 else f"{amount:.4f}"


def duration(hours: float) -> str:
    """The time in minutes, hours or days, whichever is read at a glance."""
    if hours < 1.5:
        return f"{max(hours * 60, 0):.0f} min"
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days"


def aligned(headings: Sequence[str], rows: Sequence[Sequence[str]], texts: int) -> list[str]:
    """Lines in columns: the first `texts` of them are flush left, the others, which are numbers, right."""
    widths = [max(len(row[column]) for row in (headings, *rows)) for column in range(len(headings))]
    return [
        "  ".join(
            cell.ljust(width) if column < texts else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (headings, *rows)
    ]


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]], texts: int) -> list[str]:
    """The lines of a Markdown table; what would end a cell or begin markup is escaped."""
    rule = ["---" if column < texts else "---:" for column in range(len(headings))]
    return [
        "| " + " | ".join(cells) + " |"
        for cells in (headings, rule, *([escaped(cell) for cell in row] for row in rows))
    ]


def escaped(text: str) -> str:
    """The text as Markdown that shows it to the letter."""
    return "".join(f"\\{letter}" if letter in r"\`*_{}[]<>#|~" else letter for letter in text)
