"""The local stack's MongoDB, served for tests."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from local_stack import ports, processes
from local_stack.mongo_server import MongoServer

STARTS_WITHIN_SECONDS = 30


@contextmanager
def running_mongo(folder: Path) -> Iterator[MongoServer]:
    """The server on a free port; its files are below `folder`."""
    server = MongoServer(ports.choose(), folder / "mongo")
    server.prepare()
    command = server.command()
    log = folder / "mongo.log"
    process = processes.launch(command, log, die_with_parent=True)
    identity = processes.Identity.of(process.pid)
    try:
        _wait_until_it_listens(server, process, log)
        yield server
    finally:
        processes.stop({server.name: (identity, command.stop_signal)})
        process.wait()


def _wait_until_it_listens(server: MongoServer, process: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(STARTS_WITHIN_SECONDS * 100):
        if processes.listens(psutil.Process(process.pid), server.port):
            return server.check()
        try:
            process.wait(timeout=0.01)
        except subprocess.TimeoutExpired:
            continue
        break
    raise RuntimeError(f"MongoDB does not answer:\n{processes.last_lines(log)}")
