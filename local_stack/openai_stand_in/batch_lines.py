"""Reads the input file of a batch: its lines, or why the batch is refused."""

import json
from collections.abc import Iterator
from typing import Any

from local_stack.openai_stand_in.calls import Call, Json, fraction_of, make_call
from local_stack.openai_stand_in.errors import ApiError
from local_stack.openai_stand_in.faults import BatchEffects
from local_stack.openai_stand_in.state import StandInState

MAX_LINES = 50_000
MAX_BYTES = 200 * 1024 * 1024
MAX_EMBEDDING_INPUTS = 50_000


class BatchRefused(Exception):
    """The batch fails as a whole; `problems` are the entries of its `errors.data`."""

    def __init__(self, problems: list[Json]) -> None:
        super().__init__(problems)
        self.problems = problems


def problem(code: str, message: str, line: int | None = None, param: str | None = None) -> Json:
    """One entry of a failed batch's `errors.data`; lines count from 1."""
    return {"code": code, "message": message, "line": line, "param": param}


def input_text(state: StandInState, file_id: Any) -> str:
    """The text of an input file, bad bytes replaced; ApiError 400 without an id, 404 without the file."""
    if not isinstance(file_id, str):
        raise ApiError(400, "'input_file_id' is a required property", param="input_file_id")
    return state.files.content(file_id).decode("utf-8", "replace")


def wanted_lines(state: StandInState, shown: Json) -> list[Json]:
    """The parsed lines of a batch, in the file's order; raises BatchRefused."""
    content = state.files.content(shown["input_file_id"])
    if len(content) > MAX_BYTES:
        text = f"The input file is too large: at most {MAX_BYTES} bytes."
        raise BatchRefused([problem("file_too_large", text)])
    # Bytes, because text would also be split at U+2028 and the like, which JSON may hold.
    raw_lines = [line for line in content.split(b"\n") if line.strip()]
    if len(raw_lines) > MAX_LINES:
        text = f"The input file holds too many requests: at most {MAX_LINES}."
        raise BatchRefused([problem("too_many_tasks", text)])
    if not raw_lines:
        raise BatchRefused([problem("empty_file", "The input file is empty.")])
    lines: list[Json] = []
    problems: list[Json] = []
    seen: set[str] = set()
    models: set[str] = set()
    for number, raw in enumerate(raw_lines, start=1):
        try:
            line = _parsed(raw, shown["endpoint"], number, seen, models)
        except BatchRefused as refused:
            problems += refused.problems
            continue
        lines.append(line)
    if problems:
        raise BatchRefused(problems[:50])
    if sum(_inputs(line["body"]) for line in lines) > MAX_EMBEDDING_INPUTS:
        text = f"The batch holds too many embedding inputs: at most {MAX_EMBEDDING_INPUTS}."
        raise BatchRefused([problem("too_many_tasks", text)])
    return lines


def _inputs(body: Json) -> int:
    inputs = body.get("input")
    return len(inputs) if isinstance(inputs, list) else 1


def calls_of(
    lines: list[Json], batch_id: str, endpoint: str, api_key_sha256: str | None, effects: BatchEffects
) -> Iterator[Call]:
    """The calls to carry out: without the lines that are to go missing, shuffled if that is asked for."""
    if effects.shuffle:
        lines = sorted(lines, key=lambda line: fraction_of(f"shuffle:{line['custom_id']}"))
    for line in lines:
        if fraction_of(f"missing:{line['custom_id']}") >= effects.missing_share:
            yield make_call(
                endpoint.removeprefix("/v1/"),
                line["body"],
                api_key_sha256=api_key_sha256,
                batch_id=batch_id,
                custom_id=line["custom_id"],
            )


def _parsed(raw: bytes, endpoint: str, number: int, seen: set[str], models: set[str]) -> Json:
    try:
        line = json.loads(raw.decode("utf-8"))
        json.dumps(line, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        raise BatchRefused([problem("invalid_json_line", "This line is not valid JSON.", number)]) from None
    custom_id = line.get("custom_id") if isinstance(line, dict) else None
    if not isinstance(custom_id, str) or not isinstance(line.get("body"), dict):
        raise BatchRefused([problem("invalid_request", "A line needs 'custom_id' and 'body'.", number)])
    if custom_id in seen:
        text = "The custom_id for this request is a duplicate of another request."
        raise BatchRefused([problem("duplicate_custom_id", text, number, "custom_id")])
    if line.get("url") != endpoint or line.get("method") != "POST":
        text = f"The line's method and url must be POST and {endpoint}, as the batch's."
        raise BatchRefused([problem("invalid_url", text, number, "url")])
    seen.add(custom_id)
    models.add(str(line["body"].get("model")))
    if len(models) > 1:
        text = "The batch contains requests for different models."
        raise BatchRefused([problem("mismatched_model", text, number, "body.model")])
    return dict(line)
