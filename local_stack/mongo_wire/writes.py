"""insert, update, delete and findAndModify."""

from collections.abc import Callable
from typing import Any

from pymongo.errors import DuplicateKeyError

from local_stack.mongo_wire.failures import (
    FAILED_TO_PARSE,
    NOT_IMPLEMENTED,
    CommandError,
    refuse,
    write_error,
)
from local_stack.mongo_wire.storage import duplicate_key

Command = dict[str, Any]
Reply = dict[str, Any]


def insert(collection: Any, command: Command) -> Reply:
    """Stores the documents one after the other; an ordered command ends at the first error."""
    inserted = 0

    def insert_one(_index: int, document: dict[str, Any]) -> None:
        nonlocal inserted
        try:
            collection.insert_one(document)
        except DuplicateKeyError as error:
            raise _named(error, collection, document) from error
        inserted += 1

    errors = _each(command, "documents", insert_one)
    return {"n": inserted, **errors, "ok": 1.0}


def update(collection: Any, command: Command) -> Reply:
    """Runs the update statements; `n` counts matched and upserted documents."""
    refuse(command, "let")
    matched = modified = 0
    upserted: list[dict[str, Any]] = []

    def update_one(index: int, statement: dict[str, Any]) -> None:
        nonlocal matched, modified
        result = _update(collection, statement)
        if result.upserted_id is not None:
            upserted.append({"index": index, "_id": result.upserted_id})
        else:
            matched += result.matched_count
            modified += result.modified_count

    errors = _each(command, "updates", update_one)
    found = {"upserted": upserted} if upserted else {}
    return {"n": matched + len(upserted), "nModified": modified, **found, **errors, "ok": 1.0}


def delete(collection: Any, command: Command) -> Reply:
    """Runs the delete statements: limit 1 deletes one document, 0 all that match."""
    refuse(command, "let")
    deleted = 0

    def delete_some(_index: int, statement: dict[str, Any]) -> None:
        nonlocal deleted
        refuse(statement, "collation")
        remove = collection.delete_one if statement.get("limit") else collection.delete_many
        deleted += remove(statement["q"]).deleted_count

    errors = _each(command, "deletes", delete_some)
    return {"n": deleted, **errors, "ok": 1.0}


def find_and_modify(collection: Any, command: Command) -> Reply:
    """Changes or removes the first match and replies with the document before or, with `new`, after it."""
    refuse(command, "collation", "let", "arrayFilters")
    query, fields = command.get("query") or {}, command.get("fields") or None
    remove, changes, new = bool(command.get("remove")), command.get("update"), bool(command.get("new"))
    if remove == (changes is not None) or (remove and (new or command.get("upsert"))):
        raise CommandError(
            FAILED_TO_PARSE, "findAndModify takes either remove, without new and upsert, or update"
        )
    target = _first(collection, query, command.get("sort"))
    if target is None and not command.get("upsert"):
        return {"lastErrorObject": {"n": 0, "updatedExisting": False}, "value": None, "ok": 1.0}
    before = None if target is None else collection.find_one({"_id": target["_id"]}, fields)
    if remove and target is not None:
        collection.delete_one({"_id": target["_id"]})
        return {"lastErrorObject": {"n": 1}, "value": before, "ok": 1.0}
    chosen = query if target is None else {**query, "_id": target["_id"]}
    result = _update(collection, {"q": chosen, "u": changes, "upsert": command.get("upsert")})
    outcome: dict[str, Any] = {"n": 1, "updatedExisting": target is not None}
    if target is None:
        outcome["upserted"] = result.upserted_id
    changed = result.upserted_id if target is None else target["_id"]
    value = collection.find_one({"_id": changed}, fields) if new else before
    return {"lastErrorObject": outcome, "value": value, "ok": 1.0}


def _each(command: Command, key: str, run: Callable[[int, Any], None]) -> dict[str, Any]:
    """Runs every statement; the `writeErrors` of those that failed, or nothing."""
    statements = command.get(key)
    if not isinstance(statements, list):
        raise CommandError(FAILED_TO_PARSE, f"{key} must be an array")
    errors = []
    for index, statement in enumerate(statements):
        try:
            run(index, statement)
        except Exception as error:
            errors.append(write_error(index, error))
            if command.get("ordered", True):
                break
    return {"writeErrors": errors} if errors else {}


def _update(collection: Any, statement: dict[str, Any]) -> Any:
    """One update or replacement of one or many documents, as litemongo's UpdateResult."""
    refuse(statement, "collation", "arrayFilters")  # litemongo has neither
    query, changes, upsert = statement["q"], statement["u"], bool(statement.get("upsert"))
    replaces = isinstance(changes, dict) and not any(key.startswith("$") for key in changes)
    if statement.get("multi"):
        if replaces:
            raise CommandError(FAILED_TO_PARSE, "multi update is not supported for replacement-style update")
        change = collection.update_many
    else:
        change = collection.replace_one if replaces else collection.update_one
        # litemongo ignores the sort of an update, and reads the new _id off the query of a replacement.
        if replaces or statement.get("sort"):
            target = _first(collection, query, statement.get("sort"))
            query = query if target is None else {**query, "_id": target["_id"]}
    if upsert and isinstance(query.get("_id"), dict) and any(key.startswith("$") for key in query["_id"]):
        raise CommandError(NOT_IMPLEMENTED, "an upsert by an operator on _id is not supported here")
    try:
        return change(query, changes, upsert=upsert)
    except DuplicateKeyError as error:
        raise _named(error, collection, query) from error


def _first(collection: Any, query: dict[str, Any], sort: dict[str, Any] | None) -> Any:
    return collection.find_one(query, sort=list(sort.items()) if sort else None)


def _named(error: DuplicateKeyError, collection: Any, document: dict[str, Any]) -> DuplicateKeyError:
    """The error with its index: one that storage could not name is that of _id."""
    if error.details:
        return error
    return duplicate_key(collection, "_id_", {"_id": 1}, {"_id": document.get("_id")})
