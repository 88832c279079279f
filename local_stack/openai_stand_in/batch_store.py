"""Batches in the data directory, one JSON file each."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from local_stack.openai_stand_in.batch_pace import ENDED, Way
from local_stack.openai_stand_in.calls import Json
from local_stack.openai_stand_in.errors import ApiError, bad_request, not_found
from local_stack.openai_stand_in.faults import BatchEffects
from local_stack.openai_stand_in.file_store import write_json

ENDPOINTS = ("/v1/chat/completions", "/v1/embeddings")
_SETTLED = frozenset({"completed", "failed", "expired", "cancelled"})
_DAY = 24 * 60 * 60


@dataclass
class Batch:
    """A batch: `shown` is the object as it is kept, `created` its Unix time with fractions."""

    shown: Json
    api_key_sha256: str | None
    effects: BatchEffects
    created: float
    way: Way = field(default_factory=Way)

    @property
    def id(self) -> str:
        """The batch's id."""
        return str(self.shown["id"])

    @property
    def status(self) -> str:
        """The batch's true status."""
        return str(self.shown["status"])

    @property
    def open(self) -> bool:
        """Whether it has yet to end."""
        return self.status not in _SETTLED

    def answer(self) -> Json:
        """The batch as the API shows it now."""
        instead = self.effects.shown_in_progress
        status = instead if instead and self.status == "in_progress" else self.status
        return {**self.shown, "status": status}


class BatchStore:
    """The batches, newest last; they outlive the process."""

    def __init__(self, folder: Path, now: Callable[[], datetime]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._now = now
        loaded = [self._loaded(path) for path in folder.glob("batch_*.json")]
        self._batches = {batch.id: batch for batch in sorted(loaded, key=lambda one: one.created)}

    def create(self, body: Json, api_key_sha256: str | None, effects: BatchEffects) -> Batch:
        """A new batch in status validating; raises ApiError 400 for a malformed request."""
        endpoint, metadata = body.get("endpoint"), body.get("metadata")
        if endpoint not in ENDPOINTS:
            raise bad_request(f"Invalid value for 'endpoint': supported are {ENDPOINTS}.", param="endpoint")
        if body.get("completion_window") != "24h":
            raise bad_request(
                "Invalid value for 'completion_window': must be '24h'.", param="completion_window"
            )
        _check_metadata(metadata)
        created = int(self._now().timestamp())
        moments = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")
        shown: Json = {
            "id": f"batch_{uuid4().hex}",
            "object": "batch",
            "endpoint": endpoint,
            "model": None,
            "errors": None,
            "input_file_id": body["input_file_id"],
            "completion_window": "24h",
            "status": "validating",
            "output_file_id": None,
            "error_file_id": None,
            "created_at": created,
            "expires_at": created + _DAY,
            **{f"{moment}_at": None for moment in moments},
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
            "usage": None,
            "metadata": metadata,
        }
        batch = Batch(shown, api_key_sha256, effects, self._now().timestamp())
        self._batches[batch.id] = batch
        self.save(batch)
        return batch

    def get(self, batch_id: str) -> Batch:
        """The batch; ApiError 404."""
        if batch_id not in self._batches:
            raise not_found(f"No batch found with id '{batch_id}'.")
        return self._batches[batch_id]

    def move(self, batch: Batch, status: str, **changes: Any) -> None:
        """Sets the status with its moment and other fields, and keeps it."""
        batch.shown.update(changes, status=status)
        batch.shown[f"{status}_at"] = int(self._now().timestamp())
        self.save(batch)

    def cancel(self, batch_id: str) -> Batch:
        """The batch, now cancelling; ApiError 404, 409 for one that has ended."""
        batch = self.get(batch_id)
        if not batch.open:
            raise ApiError(409, f"Cannot cancel a batch with status '{batch.status}'.")
        if batch.status != "cancelling":
            self.move(batch, "cancelling")
        batch.way.open(ENDED)
        return batch

    def open_batches(self) -> list[Batch]:
        """Those that have not ended, oldest first."""
        return [batch for batch in self._batches.values() if batch.open]

    def page(self, query: Mapping[str, str]) -> Json:
        """A list object, newest first; `limit` 1–100 (20) and `after` as in the API."""
        limit, after = query.get("limit", "20"), query.get("after")
        if not limit.isdecimal() or not 1 <= int(limit) <= 100:
            raise bad_request("Invalid 'limit': must be from 1 to 100.", param="limit")
        ids = list(reversed(self._batches))
        if after:
            self.get(after)
            ids = ids[ids.index(after) + 1 :]
        page = [self._batches[one].answer() for one in ids[: int(limit)]]
        ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {}
        return {"object": "list", "data": page, "has_more": len(ids) > len(page), **ends}

    def clear(self) -> None:
        """Forgets all batches."""
        for batch_id in self._batches:
            (self._folder / f"{batch_id}.json").unlink(missing_ok=True)
        self._batches.clear()

    def save(self, batch: Batch) -> None:
        """Keeps the batch as it is now."""
        kept = {
            "shown": batch.shown,
            "api_key_sha256": batch.api_key_sha256,
            "effects": batch.effects.model_dump(),
            "created": batch.created,
        }
        write_json(self._folder / f"{batch.id}.json", kept)

    def _loaded(self, path: Path) -> Batch:
        kept = json.loads(path.read_bytes())
        effects = BatchEffects(**kept["effects"])
        return Batch(kept["shown"], kept["api_key_sha256"], effects, kept["created"])


def _check_metadata(metadata: Any) -> None:
    if metadata is None:
        return
    if not isinstance(metadata, dict) or len(metadata) > 16:
        raise bad_request("Invalid 'metadata': at most 16 pairs.", param="metadata")
    for key, value in metadata.items():
        if not isinstance(value, str) or len(value) > 512 or len(key) > 64:
            raise bad_request(
                "Invalid 'metadata': keys up to 64, texts up to 512 characters.", param="metadata"
            )
