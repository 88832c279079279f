"""createIndexes, listIndexes and dropIndexes."""

from typing import Any

from pymongo.errors import DuplicateKeyError, OperationFailure

from local_stack.mongo_wire.failures import (
    FAILED_TO_PARSE,
    INDEX_KEY_SPECS_CONFLICT,
    INDEX_NOT_FOUND,
    INVALID_OPTIONS,
    NOT_IMPLEMENTED,
    CommandError,
    refuse,
)
from local_stack.mongo_wire.storage import duplicate_key

_OPTIONS = ("unique", "sparse", "partialFilterExpression", "expireAfterSeconds")


def create(collection: Any, existed: bool, specifications: list[dict[str, Any]]) -> dict[str, Any]:
    """Makes the indexes that are not there. Raises CommandError for one of the same name that differs."""
    before = len(collection.index_information()) if existed else 1
    for specification in specifications:
        _create_one(collection, specification)
    return {
        "numIndexesBefore": before,
        "numIndexesAfter": len(collection.index_information()),
        "createdCollectionAutomatically": not existed,
        "ok": 1.0,
    }


def _create_one(collection: Any, specification: dict[str, Any]) -> None:
    refuse(specification, "collation", "wildcardProjection", "weights")
    key, name = specification.get("key"), specification.get("name")
    if not key or not name:
        raise CommandError(FAILED_TO_PARSE, "an index needs a key and a name")
    if not all(isinstance(direction, int | float) for direction in key.values()):
        raise CommandError(NOT_IMPLEMENTED, f"only ascending and descending indexes are supported, not {key}")
    if dict(key) == {"_id": 1}:
        return
    options = {option: specification[option] for option in _OPTIONS if option in specification}
    try:
        collection.create_index(list(key.items()), name=name, **options)
    except DuplicateKeyError as error:
        raise duplicate_key(collection, name, dict(key), {}) from error
    except OperationFailure as error:
        raise CommandError(INDEX_KEY_SPECS_CONFLICT, str(error)) from error


def listing(collection: Any) -> list[dict[str, Any]]:
    """The indexes as listIndexes gives them, that of _id first."""
    found = []
    for name, index in collection.index_information().items():
        options = {option: index[option] for option in _OPTIONS if option in index}
        found.append({"v": 2, "key": dict(index["key"]), "name": name, **options})
    return found


def drop(collection: Any, which: Any) -> dict[str, Any]:
    """Drops by name, by key, by a list of names, or with "*" all but that of _id."""
    known = {index["name"]: index["key"] for index in listing(collection)}
    if which == "*":
        names = [name for name in known if name != "_id_"]
    elif isinstance(which, dict):
        names = [name for name, key in known.items() if list(key.items()) == list(which.items())][:1] or [
            str(which)
        ]
    else:
        names = which if isinstance(which, list) else [which]
    for name in names:
        if name == "_id_":
            raise CommandError(INVALID_OPTIONS, "cannot drop _id index")
        if name not in known:
            raise CommandError(INDEX_NOT_FOUND, f"index not found with name [{name}]")
    for name in names:
        # One by one: litemongo's drop_indexes forgets the indexes until the next start only.
        collection.drop_index(name)
    return {"nIndexesWas": len(known), "ok": 1.0}
