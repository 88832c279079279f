"""Reads a file of named SQL statements, so that SQL stands as SQL and can be loaded by other tools."""

import re
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


def read_statements(file: Path) -> dict[str, bytes]:
    """Each `-- name: x` and the statement below it, as psycopg takes statements.

    Raises ValueError where a name stands twice or nothing is named.
    """
    parts = _NAME.split(file.read_text(encoding="utf-8"))
    names, bodies = parts[1::2], parts[2::2]
    if not names or len(set(names)) != len(names):
        raise ValueError(f"{file.name}: statements need names, each once")
    return {name: body.strip().encode() for name, body in zip(names, bodies, strict=True)}
