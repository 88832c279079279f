"""The rows as a table for people, and as `bench.json`."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.row import Row, shown

HEADINGS = ("measured", "value", "unit", "target", "kept", "ratio", "peer")
_VERDICTS = {True: "yes", False: "NO", None: ""}


def as_text(rows: Sequence[Row]) -> str:
    """One line a row, columns aligned; long peers stand last, so that nothing is cut."""
    lines = [HEADINGS, *map(_cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def write_json(rows: Sequence[Row], file: Path) -> None:
    """Replaces the file as a whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f"{file.name}.new")
    text = json.dumps([asdict(row) for row in rows], ensure_ascii=False, indent=2)
    unfinished.write_text(f"{text}\n", encoding="utf-8")
    unfinished.replace(file)


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "" if row.ratio is None else shown(row.ratio)
    return (row.name, shown(row.value), row.unit, row.target or "", _VERDICTS[row.met], ratio, row.peer or "")
