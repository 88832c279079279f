"""What should be stored of one partition's files: the contract's rules over plain data."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

TO_PROCESS = ("PENDING", "FAILED")


def version(body: bytes) -> str:
    """The ETag of an object with these bytes."""
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


@dataclass
class File:
    """A row of the ledger. `sha256` is of the bytes that were processed last."""

    etag: str
    status: str = "PENDING"
    attempts: int = 0
    sha256: str | None = None
    run_id: str | None = None
    marked: str | None = None

    def wait_again(self) -> None:
        """As if it had not been tried."""
        self.status, self.attempts = "PENDING", 0


@dataclass
class Run:
    """A run that is at a file, whose lock it holds; `todo` are those that waited when it began."""

    run_id: str
    todo: Iterator[tuple[str, str]]
    at: tuple[str, str, bytes] | None = None
    dies_at_marker: bool = False


@dataclass
class Files:
    """Bucket and ledger. `domains` gives what a body names, None for one that cannot be read."""

    domains: dict[bytes, list[str] | None]
    bodies: dict[str, bytes] = field(default_factory=dict)
    markers: dict[str, str] = field(default_factory=dict)
    ledger: dict[str, File] = field(default_factory=dict)
    sightings: dict[str, list[str]] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)

    def is_locked(self, key: str) -> bool:
        """Whether a run is at it."""
        return any(run.at is not None and run.at[0] == key for run in self.runs.values())

    def look(self) -> None:
        """Writes down what is new or replaced; what a run is at is left to the next look."""
        for key, body in self.bodies.items():
            etag, known = version(body), self.ledger.get(key)
            if known is None:
                is_finished = key in self.markers
                self.ledger[key] = File(etag, "PROCESSED" if is_finished else "PENDING")
            elif known.etag != etag and not self.is_locked(key):
                known.etag = etag
                known.wait_again()

    def force(self, key: str) -> None:
        """Has a file processed again, whatever is known of it; not one that a run is at."""
        if key in self.ledger and not self.is_locked(key):
            self.ledger[key].wait_again()

    def start(self, run_id: str) -> None:
        """A run writes the markers that are missing and goes to its first file."""
        run = Run(run_id, iter(()))
        if self.write_markers(run):
            waiting = [
                (key, one.etag) for key, one in sorted(self.ledger.items()) if one.status in TO_PROCESS
            ]
            run.todo = iter(waiting)
            self.go_on(run)

    def go_on(self, run: Run) -> None:
        """The run comes to a file that it may read, or to its end. Each file is followed by the markers."""
        run.at = None
        self.runs[run.run_id] = run
        for key, etag in run.todo:
            if self.may_read(key, etag):
                run.at = (key, etag, self.bodies[key])
                return
            if not self.write_markers(run):
                break
        del self.runs[run.run_id]

    def may_read(self, key: str, etag: str) -> bool:
        """Whether it is free and there in this version. One that is gone is what it was before."""
        known = self.ledger.get(key)
        if known is None or known.etag != etag or known.status not in TO_PROCESS or self.is_locked(key):
            return False
        if key not in self.bodies:
            if known.sha256 is None:
                del self.ledger[key]
            elif known.marked is not None:
                known.status, known.etag = "PROCESSED", known.marked
            return False
        return version(self.bodies[key]) == etag

    def finish(self, run_id: str, dies_at_marker: bool) -> None:
        """What the run has read becomes sightings, in place of those before, or the file has failed."""
        run = self.runs[run_id]
        run.dies_at_marker = dies_at_marker
        assert run.at is not None
        key, _, body = run.at
        run.at = None
        known = self.ledger[key]
        known.attempts += 1
        known.run_id = run_id
        found = self.domains[body]
        if found is None:
            known.status = "FAILED"
        else:
            known.status, known.marked = "PROCESSED", None
            known.sha256 = hashlib.sha256(body).hexdigest()
            self.sightings[key] = found
        if self.write_markers(run):
            self.go_on(run)
        else:
            del self.runs[run_id]

    def write_markers(self, run: Run) -> bool:
        """Whether the run still lives when all that we processed has its marker."""
        for key, one in sorted(self.ledger.items()):
            if one.status == "PROCESSED" and one.run_id is not None and one.marked != one.etag:
                if run.dies_at_marker:
                    return False
                self.markers[key] = one.run_id
                one.marked = one.etag
        return True
