"""What the check of files shows of keys and reasons, which come from outside."""

import dagster as dg
import pytest

from assets.raw_files.checks import readable

HOSTILE = ["<img src=x>", "[x](https://evil.test)", "a | b", "**b** `c`", "one\ntwo", "https://evil.test"]


def table(result: dg.AssetCheckResult) -> list[str]:
    shown = (result.metadata or {})["reasons"]
    assert isinstance(shown, dg.MarkdownMetadataValue)
    return str(shown.value).splitlines()


@pytest.mark.parametrize("text", HOSTILE)
def test_neither_a_key_nor_a_reason_marks_anything_up(text: str) -> None:
    for failed in ((text, "plain"), ("plain", text)):
        row = table(readable([failed]))[-1]
        assert row.count("|") == 3
        assert not set("<>[]*`\n") & set(row) and "://e" not in row


def test_files_that_failed_are_listed_and_fail_the_check() -> None:
    result = readable([("raw/a.json", "empty"), ("raw/b.json", "broken JSON")])
    assert not result.passed
    assert table(result)[2:] == ["| raw/a.json | empty |", "| raw/b.json | broken JSON |"]
    assert readable([]).passed and table(readable([])) == ["none"]
