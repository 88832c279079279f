"""Two shortcuts in litemongo, without which a unique index makes n writes cost n².

Both give what litemongo gives: it looks at every document of a candidate set, and at every value of an `$in`.
"""

import importlib
from collections.abc import Collection, Hashable, Iterable
from typing import Any

_filtering: Any = importlib.import_module("litemongo._vendor.mongomock.filtering")
_indexing: Any = importlib.import_module("litemongo._vendor.mongomock.indexing")
_candidates_of_many = _indexing.FieldIndex.candidates
_is_in = _filtering._in_op


def install() -> None:
    """Puts the shortcuts in place, for this process."""
    _indexing.FieldIndex.candidates = _candidates
    _filtering._filterer_inst._operator_map["$in"] = _is_among


def _candidates(index: Any, keys: Iterable[Hashable]) -> Collection[Hashable]:
    """For one key the entry itself, which the caller only intersects: it may hold every document."""
    wanted = list(keys)
    if len(wanted) == 1 and not index._unkeyed:
        entry: Collection[Hashable] = index._entries.get(wanted[0], frozenset())
        return entry
    many: Collection[Hashable] = _candidates_of_many(index, wanted)
    return many


def _is_among(value: Any, wanted: Any) -> bool:
    """A text that is found needs no look at whether one of the others is a pattern."""
    if isinstance(value, str) and isinstance(wanted, list) and value in wanted:
        return True
    return bool(_is_in(value, wanted))
