"""Generated command lines of `granary`: an exit code and a line that says why, never a traceback."""

import os
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st

from assets.economy_news.models import JobType
from assets.economy_news.result_kinds import KINDS
from operations.alarm_cursor import read_cursor
from operations.command_line import main
from operations.quote_request import MOST_DAYS, NotAQuestion, read_request
from operations.rehearsal import CannotRehearse, kind_of, read_rehearsed
from tests.bad_inputs import bad_inputs

# As a shell hands them over: no NUL, bytes that are no UTF-8 as lone surrogates.
ARGUMENTS = st.text(st.characters(exclude_characters="\x00"), max_size=12)
WORDS = st.sampled_from(
    [
        "costs",
        "quote",
        "why",
        "rehearse",
        "article",
        "context",
        "member",
        "raw-file",
        "recipe",
        "economy_news",
        "raw_files",
        "recipes",
        "--json",
        "--days",
        "--from",
        "--to",
        "--sections",
        "--sources",
        "--mode",
        "--redo",
        "--kind",
        "--model",
        "--articles",
        "--yes",
        "--help",
        "-h",
        "--",
        "=",
        "live",
        "batch",
        "outdated",
        "all",
        "kr/news",
        "FINANCE",
        "2026-11-30",
        "9999-12-31",
        "0001-01-01",
        "0",
        "1",
        "-1",
        "1e9",
        "٣",
        "NaN",
        "x.md",
    ]
)
LINES = st.lists(WORDS | ARGUMENTS | st.builds("{}={}".format, WORDS, ARGUMENTS), max_size=8)
DAYS = (
    st.dates().map(str)
    | ARGUMENTS
    | st.sampled_from(["9999-12-31", "0001-01-01", "2026-W48-1", "20261130", "2026-11-30T00", "٢٠٢٦-١١-٣٠"])
)


@bad_inputs
@given(line=LINES)
@example(line=["costs", "--days", "9" * 5_000])
def test_any_command_line_ends_with_a_code(line: list[str]) -> None:
    said, told = StringIO(), StringIO()
    nowhere = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "COLUMNS")}
    with patch.dict(os.environ, nowhere, clear=True), redirect_stdout(said), redirect_stderr(told):
        code = main(line)
    # Without a database nothing but --help is done.
    assert (code == 0) == bool(said.getvalue()) and code in (0, 2)
    assert code == 0 or told.getvalue().strip()
    assert "Traceback" not in told.getvalue()


@bad_inputs
@given(
    pipeline=st.sampled_from(["economy_news", "raw_files", "recipes"]) | ARGUMENTS,
    first=DAYS,
    last=DAYS,
    parts=st.lists(
        st.sampled_from(["FINANCE", "kr/news", "kr/news\n", " STOCK ", ""]) | ARGUMENTS, max_size=4
    ),
    mode=st.sampled_from(["live", "batch"]) | ARGUMENTS,
    redo=st.sampled_from(["", "outdated", "all"]) | ARGUMENTS,
)
def test_a_question_is_read_or_refused(
    pipeline: str, first: str, last: str, parts: list[str], mode: str, redo: str
) -> None:
    try:
        request = read_request(pipeline, first, last, parts, mode, redo)
    except NotAQuestion as refused:
        problem = str(refused)
    else:
        assert 1 <= request.days <= MOST_DAYS and "\n" not in request.title() and request.title().encode()
        return
    assert "\n" not in problem and problem.encode()


NAMES = st.text(st.characters(exclude_characters="\x00/"), min_size=1, max_size=40).map("{}.md".format)
FILES = NAMES | st.sampled_from(
    [".md", "..md", "a..md", "x.txt", "summary.md", "Quiz_Term.md", "퀴즈.md", "a\udc80.md"]
)
CONTENTS = st.binary(max_size=60) | st.text(max_size=30).map(str.encode) | st.none()


@bad_inputs
@given(kind=st.sampled_from(sorted(KINDS)), name=FILES, content=CONTENTS)
@example(kind=JobType.SUMMARY, name="a" * 300 + ".md", content=b"x")
@example(kind=JobType.SUMMARY, name="\ud800.md", content=b"x")
@example(kind=JobType.SUMMARY, name="summary.md", content=b"\x1c")
def test_any_file_is_a_prompt_or_cannot_be_rehearsed(kind: JobType, name: str, content: bytes | None) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / name
        if content is not None:
            try:
                file.write_bytes(content)
            except (OSError, UnicodeEncodeError):  # no name of this file system
                content = None
        try:
            prompt = read_rehearsed(KINDS[kind], file)
            assert content is not None and prompt.instructions.encode() and prompt.version
        except CannotRehearse:
            assert name != "summary.md" or not holds_text(content or b"")
        try:
            assert kind_of(file, None).job_type == file.stem.upper()
        except CannotRehearse:
            assert content is None or file.stem.upper() not in KINDS


def holds_text(content: bytes) -> bool:
    try:
        return bool(content.decode().strip())  # of a text: bytes know less white space
    except UnicodeDecodeError:
        return False


JSON_PIECES = st.sampled_from(
    [*'[]{}:,"', '"runs_after"', '"samples"', '"2026-11-30T12:00:00+00:00"', "1e999", "NaN", "9" * 400]
)


@bad_inputs
@given(cursor=st.lists(JSON_PIECES | ARGUMENTS, max_size=20).map("".join))
@example(cursor='{"runs_after": "9999-12-31T23:59:59-14:00"}')
@example(cursor='{"samples": [["0001-01-01T00:00:00+14:00", {"x": 1}]]}')
def test_any_cursor_gives_one_that_reads_back(cursor: str) -> None:
    read = read_cursor(cursor)
    again = read_cursor(read.to_text())
    assert again.runs_after == read.runs_after
    assert again.window.growth() == read.window.growth()
