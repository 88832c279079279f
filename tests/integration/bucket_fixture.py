"""The local stack's bucket, served for tests."""

import http.client
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from local_stack import ports, processes
from local_stack.bucket import BUCKET, REGION, Bucket

ACCOUNT = "000000000000"  # of every key that is no account number itself
STARTS_WITHIN_SECONDS = 30


@dataclass(frozen=True)
class BucketAddress:
    """What leads to a running bucket. The server takes any key."""

    url: str
    bucket: str
    access_key_id: str
    secret_access_key: str
    region: str

    def variables(self) -> dict[str, str]:
        """The environment that resources.bucket reads."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_DEFAULT_REGION": self.region,
        }


@contextmanager
def running_bucket(tmp_path: Path, empty_objects: Iterable[str] = ()) -> Iterator[BucketAddress]:
    """The server with its bucket, on a free port; its files are below `tmp_path`.

    `empty_objects`: keys that are there from the start. A thousand of them cost 0.1 s, by requests 2 s.
    """
    server = Bucket(ports.choose(), tmp_path / "bucket", "GRANARYTESTKEY", "granary-test-secret")
    server.prepare()
    _store(server, empty_objects)
    command = server.command()
    log = tmp_path / "bucket.log"
    process = processes.launch(command, log, die_with_parent=True)
    identity = processes.Identity.of(process.pid)
    try:
        _wait_until_ready(server, log, identity)
        server.furnish()
        yield BucketAddress(server.address, BUCKET, server.access_key_id, server.secret_access_key, REGION)
    finally:
        processes.stop({server.name: (identity, command.stop_signal)})
        process.wait()


def _store(server: Bucket, keys: Iterable[str]) -> None:
    """As the server keeps them itself, one file an object, and reads them when it starts."""
    for key in keys:
        file = server.data_dir / "objects" / ACCOUNT / BUCKET / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def _wait_until_ready(server: Bucket, log: Path, identity: processes.Identity) -> None:
    deadline = time.monotonic() + STARTS_WITHIN_SECONDS
    while time.monotonic() < deadline and identity.process():
        try:
            return server.check()
        except (OSError, http.client.HTTPException):
            threading.Event().wait(0.05)
    raise RuntimeError(f"the bucket does not answer:\n{processes.last_lines(log)}")
