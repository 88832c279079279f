"""Errors as MongoDB reports them: a code, a code name, a message."""

from typing import Any

from bson.errors import BSONError
from pymongo.errors import DuplicateKeyError, InvalidName, OperationFailure, PyMongoError

BAD_VALUE = (2, "BadValue")
UNKNOWN_ERROR = (8, "UnknownError")
FAILED_TO_PARSE = (9, "FailedToParse")
NAMESPACE_NOT_FOUND = (26, "NamespaceNotFound")
INDEX_NOT_FOUND = (27, "IndexNotFound")
CURSOR_NOT_FOUND = (43, "CursorNotFound")
NAMESPACE_EXISTS = (48, "NamespaceExists")
COMMAND_NOT_FOUND = (59, "CommandNotFound")
INVALID_OPTIONS = (72, "InvalidOptions")
INVALID_NAMESPACE = (73, "InvalidNamespace")
INDEX_KEY_SPECS_CONFLICT = (86, "IndexKeySpecsConflict")
NOT_IMPLEMENTED = (238, "NotImplemented")
DUPLICATE_KEY = (11000, "DuplicateKey")


class CommandError(Exception):
    """An answer other than ok, with one of the codes above."""

    def __init__(self, code: tuple[int, str], message: str) -> None:
        super().__init__(message)
        self.code, self.code_name = code


def refuse(command: dict[str, Any], *options: str) -> None:
    """Raises CommandError if the command sets one of these options: ignoring it would change the result."""
    for option in options:
        if command.get(option):
            raise CommandError(NOT_IMPLEMENTED, f"{option} is not supported by the local MongoDB stand-in")


def classify(error: Exception) -> tuple[int, str]:
    """The code and code name of whatever a command raised."""
    match error:
        case CommandError():
            return error.code, error.code_name
        case DuplicateKeyError():
            return DUPLICATE_KEY
        case NotImplementedError():
            return NOT_IMPLEMENTED
        case InvalidName():
            return INVALID_NAMESPACE
        case OperationFailure(code=int(code)):
            return code, "Error"
        case PyMongoError() | BSONError() | ValueError() | TypeError():
            return BAD_VALUE
    return UNKNOWN_ERROR


def failed(error: Exception) -> dict[str, Any]:
    """The reply to a command that failed as a whole."""
    code, code_name = classify(error)
    return {"ok": 0.0, "errmsg": _message(error), "code": code, "codeName": code_name, **_key_details(error)}


def write_error(index: int, error: Exception) -> dict[str, Any]:
    """The element of `writeErrors` for the statement at `index`."""
    code, _ = classify(error)
    return {"index": index, "code": code, "errmsg": _message(error), **_key_details(error)}


def _message(error: Exception) -> str:
    if isinstance(error, OperationFailure) and error.details and "errmsg" in error.details:
        return str(error.details["errmsg"])
    return str(error) if isinstance(error, CommandError) else f"{type(error).__name__}: {error}"


def _key_details(error: Exception) -> dict[str, Any]:
    details = error.details if isinstance(error, DuplicateKeyError) and error.details else {}
    return {name: details[name] for name in ("keyPattern", "keyValue") if name in details}
