"""Files of named statements."""

from pathlib import Path

import pytest

from resources.named_sql import read_statements


def written(folder: Path, text: str) -> Path:
    file = folder / "queries.sql"
    file.write_text(text, encoding="utf-8")
    return file


def test_each_name_gives_the_statement_below_it_with_its_comments(tmp_path: Path) -> None:
    text = "-- Statements.\n\n-- name: one\n-- why\nSELECT '한글';\n\n-- name: two_b\nSELECT\n  2;\n"
    assert read_statements(written(tmp_path, text)) == {
        "one": "-- why\nSELECT '한글';".encode(),
        "two_b": b"SELECT\n  2;",
    }


def test_a_name_inside_a_statement_is_no_name(tmp_path: Path) -> None:
    file = written(tmp_path, "-- name: one\nSELECT 1 -- name: not_this\n")
    assert list(read_statements(file)) == ["one"]


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"queries\.sql: statements need names, each once"):
        read_statements(written(tmp_path, "-- name: one\nSELECT 1;\n-- name: one\nSELECT 2;\n"))


def test_a_file_that_names_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="statements need names"):
        read_statements(written(tmp_path, "SELECT 1;\n"))
