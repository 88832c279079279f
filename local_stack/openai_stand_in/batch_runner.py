"""Carries a batch from validating to its end, through the same code as direct calls.

How far it may go at a time is `batch_pace`'s. Where a batch that was under way finds its lines in the ledger
after a restart, it answers them again without a second entry: they were paid for.
"""

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from local_stack.openai_stand_in.batch_lines import BatchRefused, calls_of, problem, wanted_lines
from local_stack.openai_stand_in.batch_pace import CARRIED_OUT, ENDED, STOPS, VALIDATED
from local_stack.openai_stand_in.batch_store import Batch
from local_stack.openai_stand_in.calls import Answer, Call, Json, fraction_of, sha256_of
from local_stack.openai_stand_in.carry_out import carry_out
from local_stack.openai_stand_in.content_faults import with_line_separator
from local_stack.openai_stand_in.errors import ApiError
from local_stack.openai_stand_in.state import StandInState

_STEP = 16
_DONE_OF_EXPIRED = 0.5
_FATES = {"expired": "expired", "cancelled": "cancelled"}


def start(state: StandInState, batch: Batch) -> None:
    """Lets the batch run by itself; needs a running event loop."""
    if batch.status == "cancelling":
        batch.way.open(ENDED)
    task = asyncio.get_running_loop().create_task(_run(state, batch))
    state.batch_tasks[batch.id] = task
    task.add_done_callback(lambda _: state.batch_tasks.pop(batch.id, None))


async def advance(state: StandInState, to: str = "end", batch_id: str | None = None) -> list[str]:
    """Moves the open batches, or one, to a stop of `STOPS`; the ids of those that have ended by that."""
    batches = [one for one in state.batches.open_batches() if batch_id in (None, one.id)]
    for batch in batches:
        batch.way.open(STOPS[to])
    await asyncio.gather(*(one.way.at_rest(state.batch_tasks.get(one.id)) for one in batches))
    return [batch.id for batch in batches if not batch.open]


async def look(state: StandInState, batch: Batch) -> None:
    """Counts a look at the batch; returns when it has come as far as that lets it."""
    batch.way.look(state.pace)
    if state.pace.looks is not None:
        await batch.way.at_rest(state.batch_tasks.get(batch.id))


@dataclass
class _Files:
    """The output and error file while they are written, and their counts."""

    output: BinaryIO
    errors: BinaryIO
    completed: int = 0
    failed: int = 0
    usage: dict[str, int] = field(default_factory=lambda: {"prompt": 0, "cached": 0, "completion": 0})

    def put(self, call: Call, answer: Answer, *, u2028: bool) -> None:
        """Writes the line of one answer, to the error file unless it is a 200."""
        body: Any = answer.body if isinstance(answer.body, dict) else {"raw": answer.body.decode()}
        if u2028 and answer.status == 200 and "choices" in body:
            message = body["choices"][0]["message"]
            message["content"] = with_line_separator(message["content"] or "")
        response = {"status_code": answer.status, "request_id": f"req_{call.sha256[:24]}", "body": body}
        good = answer.status == 200
        self.completed += good
        self.failed += not good
        for name in self.usage:
            self.usage[name] += getattr(answer.usage, name)
        _write(
            self.output if good else self.errors, call.batch_id or "", call.custom_id or "", response, None
        )

    def put_expired(self, call: Call) -> None:
        """Writes the error line of a request whose turn never came."""
        message = "This request could not be executed before the completion window expired."
        self.failed += 1
        error = {"code": "batch_expired", "message": message}
        _write(self.errors, call.batch_id or "", call.custom_id or "", None, error)


async def _run(state: StandInState, batch: Batch) -> None:
    await _until(state, batch, VALIDATED)
    try:
        lines = _accepted_lines(state, batch)
    except (BatchRefused, ApiError) as refused:
        gone = problem("invalid_input_file", "The input file is gone.")
        problems = refused.problems if isinstance(refused, BatchRefused) else [gone]
        state.batches.move(batch, "failed", errors={"object": "list", "data": problems})
        return
    counts = batch.shown["request_counts"]
    counts["total"] = len(lines)
    batch.shown["model"] = lines[0]["body"].get("model")
    if batch.status == "validating":
        state.batches.move(batch, "in_progress")
    paths = [state.files.scratch(f"{batch.id}_{name}") for name in ("output", "error")]
    with paths[0].open("wb") as output, paths[1].open("wb") as errors:
        files = _Files(output, errors)
        await _carry_out_lines(state, batch, lines, files)
        _add_strangers(paths[0], files, batch)
    fate = "cancelled" if batch.status == "cancelling" else _FATES.get(batch.effects.batch_status or "")
    if fate is None:
        await _until(state, batch, CARRIED_OUT)
        state.batches.move(batch, "finalizing")
        await _until(state, batch, ENDED)
    # A cancel may have come while it was finalizing; what is done is then delivered all the same.
    fate = "cancelled" if batch.status == "cancelling" else fate or "completed"
    counts.update(completed=files.completed, failed=files.failed)
    state.batches.move(batch, fate, **_delivered(state, batch, paths), usage=_usage(files))


def _accepted_lines(state: StandInState, batch: Batch) -> list[Json]:
    lines = wanted_lines(state, batch.shown)
    if batch.effects.token_limit_exceeded:
        model = lines[0]["body"].get("model")
        text = f"Enqueued token limit reached for {model}. Please try again once some batches have ended."
        raise BatchRefused([problem("token_limit_exceeded", text)])
    if batch.effects.batch_status == "failed":
        raise BatchRefused([problem("server_error", "The batch failed, as asked for.")])
    return lines


async def _carry_out_lines(state: StandInState, batch: Batch, lines: list[Json], files: _Files) -> None:
    effects, shown = batch.effects, batch.shown
    recorded = state.ledger.recorded_lines(batch.id)
    calls = calls_of(lines, batch.id, shown["endpoint"], batch.api_key_sha256, effects)
    for place, call in enumerate(calls):
        if place % _STEP == 0:
            await _until(state, batch, VALIDATED + (CARRIED_OUT - VALIDATED) * place / len(lines))
            await asyncio.sleep(0)
        unknown = call.custom_id not in recorded
        if batch.status == "cancelling" and unknown:
            continue
        if effects.batch_status in _FATES and fraction_of(f"done:{call.custom_id}") >= _DONE_OF_EXPIRED:
            if effects.batch_status == "expired":
                files.put_expired(call)
            continue
        answer = await _answered(state, call, effects.error_share)
        if unknown:
            state.ledger.record(call, answer)
        files.put(call, answer, u2028=effects.u2028)
        shown["request_counts"].update(completed=files.completed, failed=files.failed)


async def _answered(state: StandInState, call: Call, error_share: float) -> Answer:
    if fraction_of(f"error:{call.custom_id}") < error_share:
        error = ApiError(500, "The server had an error while processing your request.", code="server_error")
        return Answer(500, error.body(), error_code="server_error")
    return await carry_out(state, call, state.faults.take(call))


def _add_strangers(path: Path, files: _Files, batch: Batch) -> None:
    """Adds the repeated and unknown lines that the batch's effects ask for to the output."""
    files.output.flush()
    with path.open("rb") as written:
        first = [line for line, _ in zip(written, range(batch.effects.duplicate_lines), strict=False)]
    files.output.writelines(first)
    for number in range(batch.effects.unknown_lines):
        response = {"status_code": 200, "request_id": "req_unknown", "body": {"object": "chat.completion"}}
        _write(files.output, batch.id, f"unknown-{number}", response, None)


def _delivered(state: StandInState, batch: Batch, paths: list[Path]) -> dict[str, str | None]:
    ids: dict[str, str | None] = {}
    for name, path in zip(("output", "error"), paths, strict=True):
        ids[f"{name}_file_id"] = "" if batch.effects.empty_file_ids else None
        if path.stat().st_size:
            stored = state.files.take_over(path, f"{batch.id}_{name}.jsonl", "batch_output")
            ids[f"{name}_file_id"] = stored["id"]
        else:
            path.unlink()
    return ids


def _usage(files: _Files) -> Json:
    prompt, completion = files.usage["prompt"], files.usage["completion"]
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": files.usage["cached"]},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + completion,
    }


async def _until(state: StandInState, batch: Batch, share: float) -> None:
    """Waits until the batch may have come this far."""
    while batch.way.allowed < share:
        seconds = None
        if state.pace.seconds is not None:
            seconds = batch.created + share * state.pace.seconds - state.now().timestamp()
            if seconds <= 0:
                return
        await batch.way.wait(seconds)


def _write(file: BinaryIO, batch_id: str, custom_id: str, response: Any, error: Any) -> None:
    line_id = f"batch_req_{sha256_of(f'{batch_id}:{custom_id}')[:24]}"
    line = {"id": line_id, "custom_id": custom_id, "response": response, "error": error}
    file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
