"""Results handed out in batches: the first in the command's reply, the rest by getMore."""

import itertools
from collections import deque
from typing import Any

import bson
from bson.raw_bson import RawBSONDocument

from local_stack.mongo_wire.failures import CURSOR_NOT_FOUND, CommandError

_FIRST_BATCH = 101
_BATCH_BYTES = 16_000_000
_OPEN_CURSORS = 500

Reply = dict[str, Any]


class Cursors:
    """The open cursors. Results are computed once, in full; the oldest go when clients leave too many."""

    def __init__(self) -> None:
        self._rest: dict[int, tuple[str, deque[Any]]] = {}
        self._ids = itertools.count(1)

    def first(
        self, namespace: str, documents: list[Any], batch_size: int | None, single: bool = False
    ) -> Reply:
        """The reply with the first batch; `single` closes the cursor after it."""
        rest = deque(documents)
        batch = _take(rest, len(rest) if single else _FIRST_BATCH if batch_size is None else batch_size)
        cursor_id = 0
        if rest:
            cursor_id = next(self._ids)
            self._rest[cursor_id] = namespace, rest
            while len(self._rest) > _OPEN_CURSORS:
                del self._rest[next(iter(self._rest))]
        return _reply("firstBatch", batch, cursor_id, namespace)

    def more(self, cursor_id: int, batch_size: int | None) -> Reply:
        """The reply with the next batch. Raises CommandError if the cursor is not open."""
        if cursor_id not in self._rest:
            raise CommandError(CURSOR_NOT_FOUND, f"cursor id {cursor_id} not found")
        namespace, rest = self._rest[cursor_id]
        batch = _take(rest, batch_size or len(rest))
        if not rest:
            del self._rest[cursor_id]
        return _reply("nextBatch", batch, cursor_id if rest else 0, namespace)

    def kill(self, cursor_ids: list[int]) -> Reply:
        """Closes the cursors; the reply says which of them were open."""
        killed = [cursor_id for cursor_id in cursor_ids if self._rest.pop(cursor_id, None)]
        not_found = [cursor_id for cursor_id in cursor_ids if cursor_id not in killed]
        return {
            "cursorsKilled": [bson.Int64(cursor_id) for cursor_id in killed],
            "cursorsNotFound": [bson.Int64(cursor_id) for cursor_id in not_found],
            "cursorsAlive": [],
            "cursorsUnknown": [],
            "ok": 1.0,
        }


def _take(documents: deque[Any], count: int) -> list[RawBSONDocument]:
    """Up to `count` documents from the left, fewer where they would pass what a message may hold."""
    batch: list[RawBSONDocument] = []
    size = 0
    while documents and len(batch) < count:
        encoded = bson.encode(documents[0])
        size += len(encoded)
        if batch and size > _BATCH_BYTES:
            break
        batch.append(RawBSONDocument(encoded))
        documents.popleft()
    return batch


def _reply(kind: str, batch: list[RawBSONDocument], cursor_id: int, namespace: str) -> Reply:
    return {"cursor": {kind: batch, "id": bson.Int64(cursor_id), "ns": namespace}, "ok": 1.0}
