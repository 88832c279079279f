"""The append-only account of every call, `ledger.jsonl`, one JSON object a line."""

import fcntl
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from local_stack.openai_stand_in.calls import Answer, Call, Json
from local_stack.openai_stand_in.models import MODELS, cost_usd

PAID_ENDPOINTS = frozenset({"chat/completions", "embeddings"})


class LedgerInUse(RuntimeError):
    """Another process writes this ledger."""


class Totals:
    """Running sums over ledger entries.

    `repeated_requests` counts paid calls whose very request had been answered and paid for before; retries
    of failed calls are not repeats, nor are polls of files and batches.
    """

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()
        self._cost = 0.0
        self._by: dict[str, Counter[str]] = {"endpoint": Counter(), "model": Counter(), "schema": Counter()}
        self._paid_requests: set[str] = set()

    def add(self, entry: Json) -> None:
        """Counts one entry."""
        self._sums["calls"] += 1
        self._sums["failed_calls"] += entry["status"] >= 400
        for tokens in ("prompt_tokens", "cached_tokens", "completion_tokens"):
            self._sums[tokens] += entry[tokens]
        self._cost += entry["cost_usd"]
        for name, counter in self._by.items():
            if entry[name] is not None:
                counter[entry[name]] += 1
        if entry["status"] < 400 and entry["endpoint"] in PAID_ENDPOINTS:
            self._sums["repeated_requests"] += entry["request_sha256"] in self._paid_requests
            self._paid_requests.add(entry["request_sha256"])

    def as_json(self) -> dict[str, Any]:
        """The sums, and the calls as `by_endpoint`, `by_model` and `by_schema`."""
        names = ("calls", "failed_calls", "prompt_tokens", "cached_tokens", "completion_tokens")
        sums: dict[str, Any] = {name: self._sums[name] for name in (*names, "repeated_requests")}
        by = {f"by_{name}": dict(sorted(counter.items())) for name, counter in self._by.items()}
        return {**sums, "cost_usd": round(self._cost, 8), **by}


class Ledger:
    """Appends entries with one write each, so that a killed process leaves at most one torn last line."""

    def __init__(self, path: Path, now: Callable[[], datetime]) -> None:
        """Opens or creates the file, drops a torn last line, continues the sequence; raises LedgerInUse."""
        self._path = path
        self._now = now
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            raise LedgerInUse(f"{path} is written by another process") from error
        self._drop_torn_line()
        self._totals = Totals()
        self.last_seq = 0
        for entry in self.entries():
            self._totals.add(entry)
            self.last_seq = entry["seq"]

    def record(self, call: Call, answer: Answer) -> None:
        """Writes the entry of one answered call; the cost follows from the answer's usage."""
        model = MODELS.get(call.model or "")
        in_batch = call.custom_id is not None
        entry = {
            "seq": self.last_seq + 1,
            "at": self._now().isoformat(),
            "endpoint": call.endpoint,
            "model": call.model,
            "schema": call.schema,
            "request_sha256": call.sha256,
            "prompt_tokens": answer.usage.prompt,
            "cached_tokens": answer.usage.cached,
            "completion_tokens": answer.usage.completion,
            "cost_usd": cost_usd(model, answer.usage, in_batch=in_batch) if model else 0.0,
            "status": answer.status,
            "error_code": answer.error_code,
            "batch_id": call.batch_id or answer.batch_id,
            "custom_id": call.custom_id,
            "api_key_sha256": call.api_key_sha256,
        }
        os.write(self._file, json.dumps(entry, ensure_ascii=True).encode() + b"\n")
        self.last_seq += 1
        self._totals.add(entry)

    def entries(self, since: int = 0) -> Iterator[Json]:
        """The entries whose seq is greater than `since`, oldest first."""
        with self._path.open("rb") as lines:
            for line in lines:
                entry: Json = json.loads(line)
                if entry["seq"] > since:
                    yield entry

    def recorded_lines(self, batch_id: str) -> set[str]:
        """The custom_ids of a batch that are in the ledger already."""
        return {
            entry["custom_id"]
            for entry in self.entries()
            if entry["batch_id"] == batch_id and entry["custom_id"] is not None
        }

    def totals(self) -> dict[str, Any]:
        """See `Totals.as_json`."""
        return self._totals.as_json()

    def clear(self) -> None:
        """Empties the ledger; the sequence starts again at 1."""
        os.ftruncate(self._file, 0)
        self.last_seq = 0
        self._totals = Totals()

    def close(self) -> None:
        """Releases the file."""
        os.close(self._file)

    def _drop_torn_line(self) -> None:
        content = self._path.read_bytes()
        if content and not content.endswith(b"\n"):
            os.ftruncate(self._file, content.rfind(b"\n") + 1)
