import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import bson
import psutil
import pytest
from pymongo import InsertOne, MongoClient, ReturnDocument, UpdateOne, WriteConcern
from pymongo.errors import BulkWriteError, CursorNotFound, DuplicateKeyError, OperationFailure, WriteError

from local_stack import processes
from local_stack.mongo_server import MongoServer
from local_stack.mongo_wire.wire import ask
from local_stack.ports import choose
from local_stack.stack import Stack

MakeStack = Callable[..., Stack]
Client = MongoClient[dict[str, Any]]


class RunningServer:
    """The server process, which a test may kill and start again."""

    def __init__(self, data_dir: Path) -> None:
        self.service = MongoServer(choose(), data_dir)
        self.log = data_dir.with_name("mongo.log")

    def start(self) -> None:
        self.service.prepare()
        self.process = processes.launch(self.service.command(), self.log, die_with_parent=True)
        for _ in range(2000):
            if processes.listens(psutil.Process(self.process.pid), self.service.port):
                return self.service.check()
            with pytest.raises(subprocess.TimeoutExpired):
                self.process.wait(timeout=0.01)
        raise AssertionError(self.log.read_text())

    def end(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        self.process.wait(timeout=10)

    def client(self) -> Client:
        return MongoClient(self.service.address, directConnection=True, serverSelectionTimeoutMS=5000)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    running = RunningServer(tmp_path_factory.mktemp("mongo") / "data")
    running.start()
    yield running
    running.end(signal.SIGTERM)


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    with server.client() as connected:
        yield connected
        for name in connected.list_database_names():
            connected.drop_database(name)


@pytest.fixture
def jobs(client: Client) -> Any:
    collection = client.granary.jobs
    collection.create_index([("source", 1), ("source_id", 1)], unique=True, name="one_job_per_recipe")
    return collection


def test_eight_workers_claim_every_job_exactly_once(server: RunningServer, jobs: Any) -> None:
    jobs.insert_many([{"source": "a", "source_id": n, "status": "fetched"} for n in range(80)])

    def claim_all(worker: int) -> list[int]:
        with server.client() as mine:
            claimed = []
            claim = {"$set": {"status": "parse_submitting", "claimed_by": worker}}
            while job := mine.granary.jobs.find_one_and_update({"status": "fetched"}, claim):
                claimed.append(job["source_id"])
            return claimed

    with ThreadPoolExecutor(8) as workers:
        claims = list(workers.map(claim_all, range(8)))
    assert sorted(n for claimed in claims for n in claimed) == list(range(80))
    for worker, claimed in enumerate(claims):
        assert jobs.count_documents({"claimed_by": worker}) == len(claimed)


def test_an_upsert_inserts_once_and_says_which(jobs: Any) -> None:
    change = {"$set": {"title": "두부찌개"}, "$setOnInsert": {"retry_count": 0}, "$inc": {"seen": 1}}
    first = jobs.update_one({"source": "a", "source_id": 1}, change, upsert=True)
    again = jobs.update_one({"source": "a", "source_id": 1}, change, upsert=True)
    assert first.upserted_id is not None and again.upserted_id is None
    assert (again.matched_count, again.modified_count) == (1, 1)
    stored = {"_id": first.upserted_id, "source": "a", "source_id": 1}
    assert list(jobs.find()) == [{**stored, "title": "두부찌개", "retry_count": 0, "seen": 2}]


def test_a_duplicate_names_the_index_and_the_key(jobs: Any) -> None:
    jobs.insert_many([{"source": "a", "source_id": n} for n in (1, 2)])
    attempts: list[Callable[[], Any]] = [
        lambda: jobs.insert_one({"source": "a", "source_id": 1}),
        lambda: jobs.update_one({"source": "a", "source_id": 2}, {"$set": {"source_id": 1}}),
        lambda: jobs.find_one_and_update({"source_id": 2}, {"$set": {"source_id": 1}}),
        lambda: jobs.replace_one({"source_id": 2}, {"source": "a", "source_id": 1}),
    ]
    for attempt in attempts:
        with pytest.raises(DuplicateKeyError, match="index: one_job_per_recipe dup key") as raised:
            attempt()
        assert raised.value.code == 11000
        assert raised.value.details and raised.value.details["keyPattern"] == {"source": 1, "source_id": 1}
        assert raised.value.details["keyValue"] == {"source": "a", "source_id": 1}
    assert jobs.distinct("source_id") == [1, 2]


def test_a_repeated_id_is_a_duplicate_of_the_id_index(jobs: Any) -> None:
    jobs.insert_one({"_id": 7})
    with pytest.raises(DuplicateKeyError, match=r"index: _id_ dup key: \{ _id: 7 \}"):
        jobs.insert_one({"_id": 7, "source": "b"})
    assert jobs.find_one({"_id": 7}) == {"_id": 7}


def test_an_unordered_insert_stores_all_but_the_duplicates_and_an_ordered_one_ends_there(jobs: Any) -> None:
    documents = [{"source": "a", "source_id": n} for n in (1, 1, 2)]
    with pytest.raises(BulkWriteError) as raised:
        jobs.insert_many(documents, ordered=False)
    assert [error["index"] for error in raised.value.details["writeErrors"]] == [1]
    assert (raised.value.details["nInserted"], jobs.distinct("source_id")) == (2, [1, 2])
    with pytest.raises(BulkWriteError):
        jobs.bulk_write([InsertOne({"source": "b", "source_id": n}) for n in (1, 1, 2)])
    assert jobs.count_documents({"source": "b"}) == 1


def test_a_partial_unique_index_binds_only_the_documents_it_covers(client: Client) -> None:
    batches = client.granary.batches
    batches.create_index("kind", unique=True, partialFilterExpression={"state": "open"}, name="one_open")
    batches.insert_many([{"_id": n, "kind": "parse", "state": "closed"} for n in range(3)])
    batches.insert_one({"_id": 3, "kind": "parse", "state": "open"})
    with pytest.raises(DuplicateKeyError, match="one_open"):
        batches.update_one({"_id": 0}, {"$set": {"state": "open"}})
    assert batches.count_documents({"state": "open"}) == 1


def test_a_unique_index_over_duplicates_is_refused(client: Client) -> None:
    client.granary.words.insert_many([{"word": "무"}, {"word": "무"}])
    with pytest.raises(DuplicateKeyError, match="index: word_1"):
        client.granary.words.create_index("word", unique=True)
    assert list(client.granary.words.index_information()) == ["_id_"]


def test_an_index_of_the_same_name_must_be_the_same(jobs: Any) -> None:
    jobs.create_index([("source", 1), ("source_id", 1)], unique=True, name="one_job_per_recipe")
    with pytest.raises(OperationFailure) as raised:
        jobs.create_index("source", name="one_job_per_recipe")
    assert raised.value.code == 86


def test_find_sorts_skips_limits_and_projects(jobs: Any) -> None:
    jobs.insert_many([{"_id": n, "source": "a", "source_id": n, "rank": n % 3} for n in range(9)])
    found = jobs.find({"_id": {"$lt": 8}}, {"rank": 1}).sort([("rank", -1), ("_id", 1)]).skip(1).limit(3)
    assert list(found) == [{"_id": 5, "rank": 2}, {"_id": 1, "rank": 1}, {"_id": 4, "rank": 1}]
    assert jobs.count_documents({"rank": 0}, skip=1) == 2
    assert jobs.estimated_document_count() == 9


def test_results_come_in_batches_and_large_ones_in_several_messages(client: Client) -> None:
    numbers = client.granary.numbers
    numbers.insert_many([{"_id": n} for n in range(250)])
    assert [document["_id"] for document in numbers.find(batch_size=7)] == list(range(250))
    assert [document["_id"] for document in numbers.aggregate([{"$match": {}}])] == list(range(250))
    for n in range(4):
        client.granary.large.insert_one({"_id": n, "text": "x" * 15_000_000})
    assert sum(len(document["text"]) for document in client.granary.large.find()) == 60_000_000


def test_a_closed_cursor_gives_no_more(client: Client) -> None:
    client.granary.numbers.insert_many([{"_id": n} for n in range(5)])
    cursor = client.granary.numbers.find(batch_size=2)
    next(cursor)
    killed = client.granary.command(
        "killCursors", "numbers", cursors=[bson.Int64(cursor.cursor_id or 0), 999]
    )
    assert (len(killed["cursorsKilled"]), killed["cursorsNotFound"]) == (1, [999])
    with pytest.raises(CursorNotFound):
        list(cursor)


def test_find_one_and_change_gives_the_document_before_or_after(client: Client) -> None:
    c = client.granary.things
    c.insert_many([{"_id": n, "n": n} for n in (1, 2, 3)])
    before = c.find_one_and_update({}, {"$set": {"n": 10}}, sort=[("n", -1)])
    assert before == {"_id": 3, "n": 3}
    after = c.find_one_and_update(
        {"_id": 3}, {"$inc": {"n": 1}}, {"_id": 0}, return_document=ReturnDocument.AFTER
    )
    assert after == {"n": 11}
    assert c.find_one_and_delete({"n": 2}) == {"_id": 2, "n": 2}
    assert c.find_one_and_replace({"_id": {"$in": [1, 9]}}, {"z": 1}) == {"_id": 1, "n": 1}
    assert c.find_one_and_update({"_id": 4}, {"$set": {"n": 4}}, upsert=True) is None
    assert c.find_one_and_update({"_id": 99}, {"$set": {"n": 4}}) is None
    assert list(c.find(sort=[("_id", 1)])) == [{"_id": 1, "z": 1}, {"_id": 3, "n": 11}, {"_id": 4, "n": 4}]


def test_many_are_updated_and_deleted_at_once(client: Client) -> None:
    c = client.granary.things
    c.insert_many([{"_id": n, "open": n < 3} for n in range(5)])
    result = c.update_many({"open": True}, {"$unset": {"open": ""}, "$push": {"log": "closed"}})
    assert (result.matched_count, result.modified_count) == (3, 3)
    assert c.delete_many({"log": "closed"}).deleted_count == 3
    assert c.delete_one({}).deleted_count == 1
    assert list(c.find()) == [{"_id": 4, "open": False}]


def test_aggregate_groups(jobs: Any) -> None:
    jobs.insert_many(
        [{"source": "a", "source_id": n, "status": "failed" if n % 3 else "fetched"} for n in range(6)]
    )
    by_status = [{"$group": {"_id": "$status", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]
    assert list(jobs.aggregate(by_status)) == [{"_id": "failed", "n": 4}, {"_id": "fetched", "n": 2}]


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        ({"kind": "soup"}, 12),
        ({"kind": {"$in": ["soup", "rice"]}}, 18),
        ({"kind": {"$in": ["rice", bson.Regex("^so")]}}, 18),
        ({"kind": {"$in": ["rice", None]}}, 19),
        ({"kind": {"$nin": ["soup", "rice"]}}, 31),
        ({"kind": "soup", "rank": 1}, 4),
        ({"kind": {"$in": ["soup"]}, "rank": {"$in": [1, 2.0]}}, 8),
        ({"kind": "unknown", "rank": 1}, 0),
        ({"$and": [{"kind": "soup"}, {"kind": "rice"}]}, 6),
        ({"kind": ""}, 6),
        ({"kind.soup": 1}, 12),
    ],
    ids=str,
)
@pytest.mark.parametrize("indexed", [True, False])
def test_an_index_changes_nothing_in_what_is_found(
    indexed: bool, wanted: dict[str, Any], count: int, client: Client
) -> None:
    things = client.granary.things
    if indexed:
        things.create_index([("kind", 1), ("rank", 1), ("kind.soup", 1)])
    kinds: list[Any] = ["soup", "rice", "", None, ["soup", "rice"], [{"soup": 1}], {"soup": 1}, 1]
    ranks: list[Any] = [1, 2, 2.0, "1", None, [1, 2]]
    things.insert_many([{"kind": kind, "rank": rank} for kind in kinds for rank in ranks])
    things.insert_one({"neither": True})
    assert things.count_documents(wanted) == count
    assert things.update_many(wanted, {"$set": {"kind": "changed"}}).matched_count == count
    assert things.count_documents({"kind": "changed"}) == count


def test_databases_collections_and_indexes_are_listed_and_dropped(client: Client) -> None:
    client.granary.create_collection("empty")
    client.other.things.insert_one({})
    assert client.list_database_names() == ["granary", "other"]
    client.granary.things.create_index("n")
    assert client.granary.list_collection_names() == ["empty", "things"]
    client.granary.things.drop_index("n_1")
    with pytest.raises(OperationFailure) as raised:
        client.granary.empty.drop_index("n_1")
    assert raised.value.code == 27
    client.granary.empty.drop()
    client.drop_database("other")
    assert "other" not in client.list_database_names()
    assert "empty" not in client.granary.list_collection_names()


def test_what_it_cannot_do_is_refused_by_name(client: Client) -> None:
    c = client.granary.things
    c.insert_one({"_id": 1, "steps": [{"n": 1}]})
    with pytest.raises(OperationFailure, match="no such command: 'mapReduce'") as raised:
        client.granary.command("mapReduce", "things")
    assert (raised.value.code, (raised.value.details or {})["codeName"]) == (59, "CommandNotFound")
    with pytest.raises(WriteError, match="arrayFilters is not supported"):
        c.update_one({}, {"$set": {"steps.$[s].n": 2}}, array_filters=[{"s.n": 1}])
    with pytest.raises(OperationFailure, match="collation is not supported"):
        c.find_one({}, collation={"locale": "ko"})
    with pytest.raises(OperationFailure, match="unknown top level operator"):
        c.find_one({"$near": 1})
    assert c.find_one() == {"_id": 1, "steps": [{"n": 1}]}


@pytest.mark.parametrize("name", ["../../outside", "a/b", "/tmp/a", "..", "", "x" * 250, "a\0b"])
def test_no_name_leads_out_of_the_folder(name: str, server: RunningServer) -> None:
    outside = server.service.data_dir.parent.parent
    before = {path for path in outside.rglob("*") if server.service.data_dir not in path.parents}
    for collection, database in ((name, "granary"), ("things", name)):
        reply = ask(server.service.port, {"insert": collection, "documents": [{"_id": 1}], "$db": database})
        assert (reply["ok"], reply.get("codeName")) == (0.0, "InvalidNamespace")
    assert {path for path in outside.rglob("*") if server.service.data_dir not in path.parents} == before


def test_a_collection_cannot_have_the_name_of_a_sqlite_file(client: Client) -> None:
    client.granary.things.insert_one({})
    with pytest.raises(OperationFailure, match="Invalid collection name"):
        client.granary["things-wal"].insert_one({})


def test_an_unacknowledged_write_gets_no_reply_and_is_stored(client: Client) -> None:
    silent = client.granary.get_collection("things", write_concern=WriteConcern(w=0))
    for n in range(20):
        silent.insert_one({"_id": n})
    assert client.granary.things.count_documents({}) == 20


def test_nonsense_closes_its_own_connection_only(client: Client, server: RunningServer) -> None:
    header = struct.Struct("<iiii")
    nonsense = [
        b"GET / HTTP/1.1\r\n",
        header.pack(10**9, 1, 0, 2013),
        header.pack(22, 1, 0, 2013) + struct.pack("<IBB", 0, 9, 9),
        header.pack(26, 1, 0, 2013) + struct.pack("<IBi", 0, 0, 900) + b"\0",
        header.pack(20, 1, 0, 2012) + b"\0\0\0\0",
    ]
    for message in nonsense:
        with socket.create_connection(("127.0.0.1", server.service.port), timeout=5) as connection:
            connection.sendall(message)
            assert connection.recv(1) == b""
    assert client.admin.command("ping") == {"ok": 1.0}


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_documents_and_indexes_survive(end: signal.Signals, tmp_path: Path) -> None:
    server = RunningServer(tmp_path / "data")
    server.start()
    with server.client() as client:
        things = client.granary.things
        for name in ("gone", "kept"):
            things.create_index(name, unique=True)
        things.bulk_write(
            [UpdateOne({"_id": n}, {"$set": {"kept": n, "gone": n}}, upsert=True) for n in range(200)]
        )
        things.drop_indexes()
        things.create_index("kept", unique=True)
    server.end(end)
    server.start()
    try:
        with server.client() as client:
            things = client.granary.things
            assert things.count_documents({}) == 200
            assert list(things.index_information()) == ["_id_", "kept_1"]
            things.insert_one({"_id": 200, "kept": 200, "gone": 1})
            with pytest.raises(DuplicateKeyError, match="kept_1"):
                things.insert_one({"kept": 1})
    finally:
        server.end(signal.SIGTERM)


def test_a_second_server_on_the_same_files_refuses_to_start(server: RunningServer) -> None:
    second = MongoServer(choose(), server.service.data_dir).command()
    result = subprocess.run(
        second.arguments, cwd=processes.PROJECT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert result.stderr == f"another server already serves {server.service.data_dir}\n"
    assert second.arguments[0] == sys.executable


def test_it_listens_on_loopback_alone(make_stack: MakeStack) -> None:
    with make_stack("mongo_server") as stack:
        (pid,) = (service.pid for service in stack.status() if service.name == "mongo_server")
        assert pid
        listening = [c.laddr.ip for c in psutil.Process(pid).net_connections(kind="inet") if not c.raddr]
        assert listening == ["127.0.0.1"]
