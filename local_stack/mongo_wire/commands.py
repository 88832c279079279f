"""Which command does what. All of them run on one thread, one after the other."""

import datetime as dt
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from local_stack.mongo_wire import indexes, reads, writes
from local_stack.mongo_wire.cursors import Cursors
from local_stack.mongo_wire.failures import (
    COMMAND_NOT_FOUND,
    NAMESPACE_EXISTS,
    NAMESPACE_NOT_FOUND,
    NOT_IMPLEMENTED,
    UNKNOWN_ERROR,
    CommandError,
    classify,
    failed,
    refuse,
)
from local_stack.mongo_wire.storage import Storage
from local_stack.mongo_wire.wire import MAX_MESSAGE_BYTES

Command = dict[str, Any]
Reply = dict[str, Any]

_OK: Reply = {"ok": 1.0}
_VERSION = (7, 0, 0)
_WIRE_VERSION = 21  # MongoDB 7.0


class Commands:
    """The commands over the collections in a folder."""

    def __init__(self, folder: Path) -> None:
        self._storage = Storage(folder)
        self._cursors = Cursors()
        self._handlers: dict[str, Callable[[Command], Reply]] = {
            "hello": _hello,
            "ismaster": _hello,
            "ping": lambda _: _OK,
            "endsessions": lambda _: _OK,
            "buildinfo": _build_info,
            "insert": lambda command: writes.insert(self._collection(command), command),
            "update": lambda command: writes.update(self._collection(command), command),
            "delete": lambda command: writes.delete(self._collection(command), command),
            "findandmodify": lambda command: writes.find_and_modify(self._collection(command), command),
            "find": self._find,
            "aggregate": self._aggregate,
            "count": lambda command: {"n": reads.count(self._collection(command), command), "ok": 1.0},
            "distinct": lambda command: {
                "values": reads.distinct(self._collection(command), command),
                "ok": 1.0,
            },
            "getmore": lambda command: self._cursors.more(command["getMore"], command.get("batchSize")),
            "killcursors": lambda command: self._cursors.kill(command["cursors"]),
            "createindexes": self._create_indexes,
            "listindexes": self._list_indexes,
            "dropindexes": lambda command: indexes.drop(self._existing(command), command["index"]),
            "create": self._create,
            "drop": self._drop,
            "listcollections": self._list_collections,
            "listdatabases": self._list_databases,
            "dropdatabase": self._drop_database,
        }

    def run(self, command: Command) -> Reply:
        """The reply, whatever happens: errors become replies with ok 0."""
        name = next(iter(command))
        try:
            handler = self._handlers.get(name.lower())
            if handler is None:
                raise CommandError(COMMAND_NOT_FOUND, f"no such command: '{name}'")
            refuse(command, "startTransaction", "txnNumber")
            command.setdefault("$db", "admin")
            return handler(command)
        except Exception as error:
            if classify(error) == UNKNOWN_ERROR:
                traceback.print_exc()
            return failed(error)

    def close(self) -> None:
        self._storage.close()

    def _collection(self, command: Command) -> Any:
        return self._storage.collection(command["$db"], next(iter(command.values())))

    def _exists(self, collection: Any) -> bool:
        return collection.name in self._storage.collection_names(collection.database.name)

    def _existing(self, command: Command) -> Any:
        collection = self._collection(command)
        if not self._exists(collection):
            raise CommandError(NAMESPACE_NOT_FOUND, f"ns does not exist: {collection.full_name}")
        return collection

    def _find(self, command: Command) -> Reply:
        collection = self._collection(command)
        single = bool(command.get("singleBatch")) or command.get("limit", 0) < 0
        documents = reads.find(collection, command)
        return self._cursors.first(collection.full_name, documents, command.get("batchSize"), single)

    def _aggregate(self, command: Command) -> Reply:
        if command["aggregate"] == 1:
            raise CommandError(NOT_IMPLEMENTED, "aggregate on a database is not supported here")
        collection = self._collection(command)
        batch_size = command.get("cursor", {}).get("batchSize")
        return self._cursors.first(collection.full_name, reads.aggregate(collection, command), batch_size)

    def _create_indexes(self, command: Command) -> Reply:
        collection = self._collection(command)
        return indexes.create(collection, self._exists(collection), command["indexes"])

    def _list_indexes(self, command: Command) -> Reply:
        collection = self._existing(command)
        return self._cursors.first(collection.full_name, indexes.listing(collection), None, single=True)

    def _create(self, command: Command) -> Reply:
        refuse(command, "capped", "timeseries", "viewOn", "validator", "collation", "clusteredIndex")
        collection = self._collection(command)
        if self._exists(collection):
            raise CommandError(NAMESPACE_EXISTS, f"Collection {collection.full_name} already exists.")
        self._storage.database(command["$db"]).create_collection(collection.name)
        return _OK

    def _drop(self, command: Command) -> Reply:
        collection = self._collection(command)
        collection.drop()
        return {"ns": collection.full_name, "ok": 1.0}

    def _list_collections(self, command: Command) -> Reply:
        database, wanted = command["$db"], command.get("filter") or {}
        names = self._storage.collection_names(database)
        match wanted:
            case {"name": str(name)} if len(wanted) == 1:
                names = [name] if name in names else []
            case _ if wanted:
                raise CommandError(NOT_IMPLEMENTED, "listCollections filters by an exact name only here")
        found = [
            {"name": name, "type": "collection", "options": {}, "info": {"readOnly": False}} for name in names
        ]
        return self._cursors.first(f"{database}.$cmd.listCollections", found, None, single=True)

    def _list_databases(self, _: Command) -> Reply:
        found = [{"name": name, "sizeOnDisk": 0, "empty": False} for name in self._storage.database_names()]
        return {"databases": found, "totalSize": 0, "ok": 1.0}

    def _drop_database(self, command: Command) -> Reply:
        self._storage.drop_database(command["$db"])
        return {"dropped": command["$db"], "ok": 1.0}


def _hello(_: Command) -> Reply:
    # Without logicalSessionTimeoutMinutes drivers send neither sessions nor retryable writes.
    return {
        "helloOk": True,
        "ismaster": True,
        "isWritablePrimary": True,
        "maxBsonObjectSize": 16_777_216,
        "maxMessageSizeBytes": MAX_MESSAGE_BYTES,
        "maxWriteBatchSize": 100_000,
        "localTime": dt.datetime.now(dt.UTC),
        "minWireVersion": 0,
        "maxWireVersion": _WIRE_VERSION,
        "readOnly": False,
        "ok": 1.0,
    }


def _build_info(_: Command) -> Reply:
    return {
        "version": ".".join(map(str, _VERSION)),
        "versionArray": [*_VERSION, 0],
        "gitVersion": "local stand-in",
        "maxBsonObjectSize": 16_777_216,
        "ok": 1.0,
    }
