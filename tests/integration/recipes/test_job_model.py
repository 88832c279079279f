"""Whatever two runs, deaths, requeues, edited rows and deletions do: the job records are those of the model.

The model is `job_model.py`. A claim takes whatever waits, in every stage; its end comes much later or never,
and may be shown when the job is long another's. Batches and their plans are left to `test_batch_store.py`.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from assets.recipes import fetch_store, job_store, repair_store
from assets.recipes.job_store import JOBS
from assets.recipes.models import FailCounts, FetchCounts, ReleaseCounts
from assets.recipes.statuses import Status
from tests.integration.recipes.job_model import (
    CLAIMS,
    FINISHES,
    LEASE,
    MOST_RETRIES,
    RELEASES,
    RESULTS,
    Record,
)
from tests.integration.recipes.job_records import DAY, MINE, NOON, SOURCE, Mongo, a_row
from tests.integration.recipes.job_records import OTHERS as OTHER_RUN
from tests.integration.state_models import NUMBERS, one_of, try_histories

FIELDS = ("source_id", "raw_hash", "status", "retry_count", "releases", "claimed_by", "claimed_at")

SOURCE_IDS = st.sampled_from(["31", "32"])
RUNS = st.sampled_from([MINE, OTHER_RUN])
CHANGES = ["fetch", "fetch", "fetch an edit", "delete", "requeue", "run ends", "run ends", "time passes"]


class Held(NamedTuple):
    """A job that a run has claimed, in the status that it has by that."""

    job_id: str
    status: Status
    claimed_by: str


ENDS = ["store", "store", "fail", "fail", "give back", "renew"]
ACTS = st.one_of(
    st.tuples(st.just("claim"), RUNS, st.sampled_from([0, 0, 301])),
    st.tuples(st.just("finish"), NUMBERS, st.sampled_from(ENDS)),
    st.tuples(st.just("change"), st.sampled_from(CHANGES), SOURCE_IDS, RUNS),
)


class JobRecords(RuleBasedStateMachine):
    """Records beside the collection; by their ids."""

    def __init__(self, db: Mongo) -> None:
        super().__init__()
        self.db = db
        self.now = NOON
        self.records: dict[str, Record] = {}
        self.held: list[Held] = []
        self.made = 0

    @initialize(is_far=st.booleans())
    def begin(self, is_far: bool) -> None:
        """With two jobs, just fetched or persisted."""
        self.db[JOBS].delete_many({})
        for source_id in ("31", "32"):
            self.fetch(source_id, "first")
        for _ in range(3 if is_far else 0):
            self.claim(MINE, after=0)
            for claim in self.held[-2:]:
                self.store(claim, self.records[claim.job_id])

    @rule(act=ACTS)
    def step(self, act: tuple[Any, ...]) -> None:
        """All acts are one rule: of several, Hypothesis leaves most out of most histories."""
        name, *given = act
        getattr(self, name)(*given)

    # What the source and people do, at any moment.

    def change(self, what: str, source_id: str, run: str) -> None:
        """One row, what one run has left, what nobody has renewed, or all that failed."""
        acts: dict[str, Callable[[], None]] = {
            "fetch": lambda: self.fetch(source_id, "first"),
            "fetch an edit": lambda: self.fetch(source_id, "second"),
            "delete": lambda: self.delete(source_id),
            "requeue": self.requeue_failed,
            "run ends": lambda: self.release_dead(run),
            "time passes": lambda: self.release_dead(None),
        }
        acts[what]()

    def fetch(self, source_id: str, raw_hash: str) -> None:
        """A new row, an edited one, which is begun anew, or one that is known."""
        counts = fetch_store.store_fetched(self.db, SOURCE, DAY, [a_row(source_id, raw_hash)], self.now)
        known = {one.source_id: id_ for id_, one in self.records.items()}
        if source_id not in known:
            assert counts == FetchCounts(1, 0, 0)
            found = self.db[JOBS].find_one({"source_id": source_id}, {"_id": 1})
            assert found is not None
            self.records[found["_id"]] = Record(source_id, raw_hash)
            return
        is_edited = self.records[known[source_id]].raw_hash != raw_hash
        assert counts == FetchCounts(0, is_edited, not is_edited)
        if is_edited:
            self.records[known[source_id]] = Record(source_id, raw_hash)

    def delete(self, source_id: str) -> None:
        for id_, one in list(self.records.items()):
            if one.source_id == source_id:
                self.db[JOBS].delete_one({"_id": id_})
                del self.records[id_]

    def requeue_failed(self) -> None:
        failed = [one for one in self.records.values() if one.status == "failed"]
        assert repair_store.requeue_failed(self.db) == len(failed)
        for one in failed:
            one.start_again()

    def release_dead(self, run: str | None) -> None:
        """What a run holds that has ended, or what is not renewed, five minutes later."""
        self.now += timedelta(seconds=0 if run else 301)
        ends = [
            one.release()
            for one in self.records.values()
            if one.claimed_at is not None
            and (one.claimed_at < self.now - LEASE if run is None else one.claimed_by == run)
        ]
        prefix = run and run.split(":")[0] + ":"
        counts = repair_store.release_dead(self.db, self.now, claimed_by_prefix=prefix)
        assert counts == ReleaseCounts(*(ends.count(end) for end in ("released", "counted", "failed")))

    # What runs do.

    def claim(self, claimed_by: str, after: int) -> None:
        self.now += timedelta(seconds=after)
        for frm, to in CLAIMS.items():
            jobs = job_store.claim(self.db, DAY, Status(frm), Status(to), claimed_by, self.now, 10)
            expected = {id_: one for id_, one in self.records.items() if one.status == frm}
            assert {job.id for job in jobs} == expected.keys()
            self.held += [Held(job.id, job.status, claimed_by) for job in jobs]
        for one in self.records.values():
            if one.status in CLAIMS:
                one.be_claimed(claimed_by, self.now)

    def finish(self, number: int, how: str) -> None:
        if not self.held:
            return
        claim = one_of(self.held, number, self.held_by)
        ours = self.held_by(claim)
        if how == "store":
            self.store(claim, ours)
        elif how == "fail":
            self.fail(claim, ours)
        elif how == "give back":
            self.give_back(claim, ours)
        else:
            self.renew(claim)

    def held_by(self, claim: Held) -> Record | None:
        record = self.records.get(claim.job_id)
        return record if record and record.is_held(claim.status, claim.claimed_by) else None

    def store(self, claim: Held, ours: Record | None) -> None:
        self.made += 1
        to = Status(FINISHES[claim.status])
        sets = {RESULTS[to]: str(self.made)} if to in RESULTS else {}
        stored = job_store.finish(self.db, [claim.job_id], claim.status, to, claim.claimed_by, sets, self.now)
        assert stored == (ours is not None)
        if ours:
            ours.finish(str(self.made))

    def fail(self, claim: Held, ours: Record | None) -> None:
        counts = job_store.fail_lines(
            self.db, {claim.job_id: "bad line"}, claim.status, claim.claimed_by, self.now
        )
        if ours:
            ours.fail()
        has_failed = ours is not None and ours.status == "failed"
        assert counts == FailCounts(ours is not None and not has_failed, has_failed)

    def give_back(self, claim: Held, ours: Record | None) -> None:
        to = Status(RELEASES[claim.status])
        given = job_store.give_back(self.db, [claim.job_id], claim.status, to, claim.claimed_by)
        assert given == (ours is not None)
        if ours:
            ours.move(to)

    def renew(self, claim: Held) -> None:
        """By run alone: it may hold the job in a later stage."""
        record = self.records.get(claim.job_id)
        is_ours = record is not None and record.claimed_by == claim.claimed_by
        assert job_store.renew(self.db, [claim.job_id], claim.claimed_by, self.now) == is_ours
        if record and is_ours:
            record.claimed_at = self.now

    # What must hold after every step.

    @invariant()
    def the_collection_says_what_the_model_says(self) -> None:
        stored = {found["_id"]: found for found in self.db[JOBS].find()}
        assert {
            id_: [*(found.get(name) for name in FIELDS), "persisted_at" in found, kept(found)]
            for id_, found in stored.items()
        } == {
            id_: [*(getattr(one, name) for name in FIELDS), one.is_persisted, one.results]
            for id_, one in self.records.items()
        }

    @invariant()
    def nothing_is_tried_more_often_than_it_may(self) -> None:
        for one in self.records.values():
            assert (one.retry_count >= MOST_RETRIES) is (one.status == "failed")


def kept(found: dict[str, Any]) -> dict[str, str]:
    return {name: found[name] for name in RESULTS.values() if name in found}


def test_whatever_happens_job_records_are_those_of_the_model(db: Mongo) -> None:
    try_histories(lambda: JobRecords(db))
