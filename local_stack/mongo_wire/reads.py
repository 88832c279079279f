"""find, count, distinct and aggregate: the documents a command asks for."""

from typing import Any

from local_stack.mongo_wire.failures import FAILED_TO_PARSE, CommandError, refuse

Command = dict[str, Any]


def find(collection: Any, command: Command) -> list[Any]:
    """The documents in order, after skip and limit."""
    refuse(command, "collation", "let", "tailable", "min", "max", "returnKey", "showRecordId")
    cursor = collection.find(command.get("filter") or {}, command.get("projection") or None)
    if command.get("sort"):
        cursor = cursor.sort(list(command["sort"].items()))
    if command.get("skip"):
        cursor = cursor.skip(command["skip"])
    if command.get("limit"):
        cursor = cursor.limit(abs(command["limit"]))
    return list(cursor)


def count(collection: Any, command: Command) -> int:
    """How many documents match, after skip and limit."""
    refuse(command, "collation")
    found: int = max(collection.count_documents(command.get("query") or {}) - command.get("skip", 0), 0)
    limit = abs(command.get("limit") or 0)
    return min(found, limit) if limit else found


def distinct(collection: Any, command: Command) -> list[Any]:
    """The different values of a field, sorted where they can be compared."""
    refuse(command, "collation")
    values = collection.distinct(command["key"], command.get("query") or {})
    try:
        return sorted(values)
    except TypeError:
        return list(values)


def aggregate(collection: Any, command: Command) -> list[Any]:
    """What the pipeline yields."""
    refuse(command, "collation", "let", "explain")
    if not isinstance(command.get("pipeline"), list):
        raise CommandError(FAILED_TO_PARSE, "'pipeline' option must be specified as an array")
    return list(collection.aggregate(command["pipeline"]))
