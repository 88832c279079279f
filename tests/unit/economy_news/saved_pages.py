"""The pages saved for these tests, each beside the value it must parse to."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "economy_news"


def names(pattern: str) -> list[str]:
    """The saved pages whose name fits, without their ending; never none."""
    found = sorted(path.stem for path in FOLDER.glob(f"{pattern}.html"))
    assert found, f"no saved page {pattern}"
    return found


def page(name: str) -> bytes:
    return (FOLDER / f"{name}.html").read_bytes()


def expected(name: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return value
