"""Whatever is uploaded, replaced, taken away and forced while two runs are at it: the tables are the model's.

The model is `file_model.py`. Runs are the pipeline's own, each halted while it holds a file's lock; they go
on, or die there or between a commit and the marker.
"""

import json
from collections.abc import Callable
from typing import Any, cast

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from assets.raw_files import store
from assets.raw_files.keys import marker_of
from assets.raw_files.scan import scan_partition
from resources.bucket import Bucket
from tests.integration.raw_files.file_model import Files
from tests.integration.raw_files.halted_run import HaltedRun, Shelf
from tests.integration.raw_files.outcomes import SIGHTINGS
from tests.integration.raw_files.raw_runs import document, raw_path
from tests.integration.raw_files.work_runs import NEWS
from tests.integration.state_models import try_histories

BODIES: dict[bytes, list[str] | None] = {
    document("gaon-market.test"): ["gaon-market.test"],
    document("narae-books.test", "gaon-market.test"): ["gaon-market.test", "narae-books.test"],
    b"{": None,
}
LEDGER = "SELECT key, etag, status, attempts, sha256, run_id, marked_etag FROM raw.file ORDER BY key"

KEYS = st.sampled_from([raw_path(1), raw_path(2)])
RUNS = st.sampled_from(["run-1", "run-2"])
CHANGES = ["upload", "upload", "take away", "mark", "force", "look", "look", "look"]
ACTS = st.one_of(
    st.tuples(st.just("run"), RUNS, st.sampled_from(["go on", "go on", "go on", "die", "die at the marker"])),
    st.tuples(st.just("change"), st.sampled_from(CHANGES), KEYS, st.sampled_from(list(BODIES))),
)


class PartitionFiles(RuleBasedStateMachine):
    """Files beside the tables of `raw`; one session looks and forces, and one is each run's."""

    def __init__(self, sessions: dict[str, psycopg.Connection]) -> None:
        super().__init__()
        self.sessions, self.people = sessions, sessions["people"]
        self.shelf = Shelf()
        self.files = Files(BODIES)
        self.runs: dict[str, HaltedRun] = {}

    @initialize()
    def begin(self) -> None:
        self.people.execute("TRUNCATE raw.file, raw.domain_sighting, raw.domain CASCADE")
        for key in (raw_path(1), raw_path(2)):
            self.upload(key, document("gaon-market.test"))
        self.look()

    def teardown(self) -> None:
        for run in self.runs.values():
            if run.is_at is not None:
                run.die()

    @rule(act=ACTS)
    def step(self, act: tuple[Any, ...]) -> None:
        """All acts are one rule: of several, Hypothesis leaves most out of most histories."""
        name, *given = act
        getattr(self, name)(*given)

    # What others do, at any moment.

    def change(self, what: str, key: str, body: bytes) -> None:
        """One file, or whatever a look finds."""
        acts: dict[str, Callable[[], None]] = {
            "upload": lambda: self.upload(key, body),
            "take away": lambda: self.take_away(key),
            "mark": lambda: self.mark(key),
            "force": lambda: self.force(key),
            "look": self.look,
        }
        acts[what]()

    def upload(self, key: str, body: bytes) -> None:
        self.shelf.put(key, body, "application/json")
        self.files.bodies[key] = body

    def take_away(self, key: str) -> None:
        self.shelf.objects_by_key.pop(key, None)
        self.files.bodies.pop(key, None)

    def mark(self, key: str) -> None:
        self.shelf.put(marker_of(key), b'{"run_id": "of others"}', "application/json")
        self.files.markers[key] = "of others"

    def force(self, key: str) -> None:
        store.forget_processing(self.people, [key])
        self.files.force(key)

    def look(self) -> None:
        scan_partition(self.people, cast(Bucket, self.shelf), NEWS)
        self.files.look()

    # What runs do.

    def run(self, run_id: str, how: str) -> None:
        """Begins the run, or has it go on from the file that it is at."""
        if run_id not in self.runs:
            self.runs[run_id] = HaltedRun(self.sessions[run_id], self.shelf, run_id)
            self.files.start(run_id)
        elif how == "die":
            self.runs[run_id].die()
            del self.files.runs[run_id]
        else:
            self.runs[run_id].go_on(dies_at_marker=how == "die at the marker")
            self.files.finish(run_id, dies_at_marker=how == "die at the marker")
        if self.runs[run_id].is_at is None:
            del self.runs[run_id]

    # What must hold after every step.

    @invariant()
    def each_run_holds_the_file_that_the_model_says(self) -> None:
        held = {run_id: run.is_at for run_id, run in self.runs.items()}
        assert held == {run_id: run.at and run.at[0] for run_id, run in self.files.runs.items()}
        assert len(set(held.values())) == len(held)

    @invariant()
    def the_tables_say_what_the_model_says(self) -> None:
        assert self.people.execute(LEDGER).fetchall() == [
            (key, one.etag, one.status, one.attempts, one.sha256, one.run_id, one.marked)
            for key, one in sorted(self.files.ledger.items())
        ]
        assert self.people.execute(SIGHTINGS).fetchall() == [
            (key, domain) for key, domains in sorted(self.files.sightings.items()) for domain in domains
        ]

    @invariant()
    def the_markers_are_those_of_the_model(self) -> None:
        bodies = {key: self.shelf.objects_by_key.get(marker_of(key)) for key in (raw_path(1), raw_path(2))}
        assert {key: json.loads(body)["run_id"] for key, body in bodies.items() if body} == self.files.markers


def test_whatever_happens_files_and_domains_are_those_of_the_model(
    connect: Callable[..., psycopg.Connection],
) -> None:
    sessions = {name: connect() for name in ("people", "run-1", "run-2")}
    for session in sessions.values():
        session.execute("SET lock_timeout = '10s'")  # nobody waits for a lock here
    try_histories(lambda: PartitionFiles(sessions))
