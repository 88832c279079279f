"""The databases and collections on disk: litemongo's SQLite files, with names that are safe as file names."""

from pathlib import Path
from typing import Any

import litemongo
from pymongo.errors import DuplicateKeyError

from local_stack.mongo_wire import quick_lookups
from local_stack.mongo_wire.failures import INVALID_NAMESPACE, CommandError

_FORBIDDEN_IN_DATABASES = set('/\\. "$*<>:|?\0')
_SQLITE_SUFFIXES = ("-wal", "-shm", "-journal")


class Storage:
    """All access to the files; to be made and used on one thread only, which SQLite asks for."""

    def __init__(self, folder: Path) -> None:
        quick_lookups.install()
        self._client = litemongo.MongoClient(str(folder))

    def close(self) -> None:
        self._client.close()

    def database(self, name: str) -> Any:
        """litemongo's database. Raises CommandError for a name MongoDB refuses."""
        if not 0 < len(name) < 64 or _FORBIDDEN_IN_DATABASES & set(name):
            raise CommandError(INVALID_NAMESPACE, f"Invalid database name: {name!r}")
        return self._client[name]

    def collection(self, database: str, name: Any) -> Any:
        """litemongo's collection, whose duplicate key errors name their index.

        Raises CommandError for names that MongoDB refuses or that cannot be files.
        """
        if not isinstance(name, str):
            raise CommandError(INVALID_NAMESPACE, f"collection name has invalid type {type(name).__name__}")
        if not 0 < len(name.encode()) < 200 or set("/$\0") & set(name) or name.endswith(_SQLITE_SUFFIXES):
            raise CommandError(INVALID_NAMESPACE, f"Invalid collection name: {name!r}")
        collection = self.database(database)[name]
        _name_violated_indexes(collection)
        return collection

    def collection_names(self, database: str) -> list[str]:
        """Names of the collections that exist, sorted."""
        return sorted(self.database(database).list_collection_names())

    def database_names(self) -> list[str]:
        """Names of the databases that hold a collection, sorted."""
        return sorted(self._client.list_database_names())

    def drop_database(self, name: str) -> None:
        for collection in self.collection_names(name):
            self.database(name)[collection].drop()


def _name_violated_indexes(collection: Any) -> None:
    # litemongo says only that a key was there already, and at this one place knows the document.
    check = collection._ensure_uniques
    if getattr(check, "names_indexes", False):
        return

    def check_and_name(document: dict[str, Any]) -> None:
        try:
            check(document)
        except DuplicateKeyError:
            for name, index in collection.index_information().items():
                values = {field: _value_at(document, field) for field, _ in index["key"]}
                same = {"$and": [values, index.get("partialFilterExpression") or {}]}
                if index.get("unique") and collection.count_documents(same) > 1:
                    raise duplicate_key(collection, name, dict(index["key"]), values) from None
            raise

    check_and_name.names_indexes = True  # type: ignore[attr-defined]
    collection._ensure_uniques = check_and_name


def duplicate_key(
    collection: Any, index: str, pattern: dict[str, Any], values: dict[str, Any]
) -> DuplicateKeyError:
    """The error as MongoDB words it; `details` hold keyPattern and keyValue."""
    keys = ", ".join(f"{field}: {value!r}" for field, value in values.items())
    message = (
        f"E11000 duplicate key error collection: {collection.full_name} index: {index} dup key: {{ {keys} }}"
    )
    return DuplicateKeyError(message, 11000, {"errmsg": message, "keyPattern": pattern, "keyValue": values})


def _value_at(document: Any, path: str) -> Any:
    for part in path.split("."):
        if not isinstance(document, dict) or part not in document:
            return None
        document = document[part]
    return document
