"""Files in the data directory: `<id>.json` for what is known about one, `<id>.bin` for its bytes."""

import json
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from local_stack.openai_stand_in.calls import Json
from local_stack.openai_stand_in.errors import bad_request, not_found


class FileStore:
    """Uploaded files and the output of batches; they outlive the process."""

    def __init__(self, folder: Path, now: Callable[[], datetime]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._now = now
        by_age = sorted(folder.glob("file-*.json"), key=lambda path: path.stat().st_mtime_ns)
        self._known = {path.stem: json.loads(path.read_bytes()) for path in by_age}

    def add(self, filename: str, content: bytes, purpose: str) -> Json:
        """Stores a file; its file object as the API shows it."""
        file_id = f"file-{uuid4().hex[:24]}"
        (self._folder / f"{file_id}.bin").write_bytes(content)
        return self._describe(file_id, filename, len(content), purpose)

    def take_over(self, written: Path, filename: str, purpose: str) -> Json:
        """Makes a finished file one of the store's without reading it; its file object."""
        file_id = f"file-{uuid4().hex[:24]}"
        size = written.stat().st_size
        written.rename(self._folder / f"{file_id}.bin")
        return self._describe(file_id, filename, size, purpose)

    def scratch(self, name: str) -> Path:
        """Where a file may be written that `take_over` is given later."""
        return self._folder / f"{name}.part"

    def get(self, file_id: str) -> Json:
        """The file object; ApiError 404."""
        if file_id not in self._known:
            raise not_found(f"No such File object: {file_id}")
        known: Json = self._known[file_id]
        return known

    def content(self, file_id: str) -> bytes:
        """The bytes; ApiError 404."""
        self.get(file_id)
        return (self._folder / f"{file_id}.bin").read_bytes()

    def page(self, query: Mapping[str, str]) -> Json:
        """A list object: `purpose`, `order` (desc), `limit` 1–10,000 (10,000) and `after` as in the API."""
        limit, after, purpose = query.get("limit", "10000"), query.get("after"), query.get("purpose")
        if not limit.isdecimal() or not 1 <= int(limit) <= 10_000:
            raise bad_request("Invalid 'limit': must be from 1 to 10000.", param="limit")
        if query.get("order", "desc") not in ("asc", "desc"):
            raise bad_request("Invalid 'order': must be 'asc' or 'desc'.", param="order")
        files = [one for one in self._known.values() if purpose in (None, one["purpose"])]
        if query.get("order") != "asc":
            files.reverse()
        if after:
            self.get(after)
            place = next((n for n, one in enumerate(files) if one["id"] == after), len(files))
            files = files[place + 1 :]
        page = files[: int(limit)]
        ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {}
        return {"object": "list", "data": page, "has_more": len(files) > len(page), **ends}

    def clear(self) -> None:
        """Forgets all files."""
        for file_id in list(self._known):
            self.delete(file_id)

    def delete(self, file_id: str) -> Json:
        """Forgets a file; the deletion object. ApiError 404."""
        self.get(file_id)
        del self._known[file_id]
        for ending in ("json", "bin"):
            (self._folder / f"{file_id}.{ending}").unlink(missing_ok=True)
        return {"id": file_id, "object": "file", "deleted": True}

    def _describe(self, file_id: str, filename: str, size: int, purpose: str) -> Json:
        known = {
            "id": file_id,
            "object": "file",
            "bytes": size,
            "created_at": int(self._now().timestamp()),
            "expires_at": None,
            "filename": filename,
            "purpose": purpose,
            "status": "processed",
            "status_details": None,
        }
        write_json(self._folder / f"{file_id}.json", known)
        self._known[file_id] = known
        return known


def write_json(path: Path, value: Json) -> None:
    """Replaces the file in one step, so that a kill leaves the old content or the new one."""
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    os.replace(unfinished, path)
