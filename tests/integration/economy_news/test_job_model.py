"""Whatever crawls, runs that die and come back, repairs and takedowns do: jobs and results are the model's.

The model (`job_model.py`) knows summaries and the insights made from them. A run has just begun when it
claims; a finish may show any claim ever made.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from assets.economy_news import job_store, repair_store, result_kinds
from assets.economy_news.article_page import Article
from assets.economy_news.article_storing import ArticleStore, StoringRules
from assets.economy_news.insight import Insight
from assets.economy_news.models import Claim, JobType, ListedPage
from assets.economy_news.result_writing import Asked, ResultWriter
from assets.economy_news.store import input_hash
from assets.economy_news.summary import Summary
from resources.spending import Usage
from tests.integration.economy_news.factories import HERE, MODEL, PROVIDER_KEY, a_text
from tests.integration.economy_news.job_model import LEASE, RETRIES, WAITING, Job, News, StoredArticle
from tests.integration.state_models import NUMBERS, Clock, one_of, try_histories

SUMMARY = replace(result_kinds.SUMMARY, followed_by=(JobType.INSIGHT,))
KINDS = {JobType.SUMMARY: SUMMARY, JobType.INSIGHT: result_kinds.INSIGHT}
# Wire stories, each printed twice, under rising numbers.
STORIES = {
    f"{2 * story + one:010}": text for story in range(50) for text in [a_text(story)] for one in (0, 1)
}
BODIES = {body for _, body in STORIES.values()}

JOBS = """
SELECT job.id, aid, job_type, job.input_hash, status, attempt, claimed_by, lease_until, next_run_at,
       suspend_reason, error_code, redo_number, asked_at
FROM news.ai_job AS job JOIN news.article AS article ON article.id = article_id ORDER BY job.id
"""
ARTICLES = """
SELECT article.aid, original.aid, article.body = '' FROM news.article AS article
LEFT JOIN news.article AS original ON original.id = article.duplicate_of
"""
RESULTS = """
SELECT job_id, redo_number, result.asked_at, coalesce(summary_full, title) FROM news.ai_result AS result
LEFT JOIN news.summary ON summary.result_id = result.id
LEFT JOIN news.insight ON insight.result_id = result.id AND position = 1
ORDER BY job_id, redo_number
"""

RUNS = st.sampled_from(["run-1", "run-2"])
CHANGES = [
    *("crawl", "crawl again", "take down", "empty bodies"),
    *("run ends", "run ends", "run ends", "repair", "repair"),
    *("redo summaries", "redo summaries", "redo insights", "redo insights"),
]
FAILURES = ("for now", "FAILED", "SUSPENDED")


ACTS = st.one_of(
    st.tuples(st.just("claim"), RUNS, st.sampled_from([0, 61, 301, 601, 601])),
    st.tuples(
        st.just("finish"),
        NUMBERS,
        st.sampled_from([*FAILURES, "success", "success", "release", "release", "renew"]),
    ),
    st.tuples(st.just("change"), st.sampled_from(CHANGES), st.integers(0, 3), RUNS),
)


class Jobs(RuleBasedStateMachine):
    """Articles and jobs beside the tables of `news`; one session of each run, one of the people."""

    def __init__(self, sessions: dict[str, psycopg.Connection], clock: Clock) -> None:
        super().__init__()
        self.sessions, self.people, self.clock = sessions, sessions["people"], clock
        self.news = News()
        self.claims: list[Claim] = []
        self.printed = self.written = 0

    @initialize(is_done=st.booleans())
    def begin(self, is_done: bool) -> None:
        """With two articles; the results of the first are made, or still to be made too."""
        self.people.execute("TRUNCATE news.article, news.listed_page, news.term RESTART IDENTITY CASCADE")
        self.clock.restart()
        self.crawl_next()
        for kind in KINDS if is_done else ():
            self.claim_kind("run-1", kind)
            self.succeed(self.claims[-1])
        self.printed = 2
        self.crawl_next()

    @rule(act=ACTS)
    def step(self, act: tuple[Any, ...]) -> None:
        """All acts are one rule: of several, Hypothesis leaves most out of most histories."""
        name, *given = act
        getattr(self, name)(*given)

    # What crawls, the clearing up and people do, at any moment.

    def change(self, what: str, number: int, run_id: str) -> None:
        """One of the newest articles, what one run has left or made, or all jobs that it concerns."""
        aid = sorted(STORIES)[max(0, self.printed - 1 - number)]
        acts: dict[str, Callable[[], None]] = {
            "crawl": self.crawl_next,
            "crawl again": lambda: self.crawl(aid),
            "take down": lambda: self.take_down(aid),
            "empty bodies": self.empty_bodies,
            "run ends": lambda: self.run_ends(run_id),
            "repair": self.repair,
            "redo summaries": lambda: self.redo(JobType.SUMMARY, run_id),
            "redo insights": lambda: self.redo(JobType.INSIGHT, run_id),
        }
        acts[what]()

    def crawl_next(self) -> None:
        self.printed += 1
        self.crawl(sorted(STORIES)[self.printed - 1])

    def crawl(self, aid: str) -> None:
        article = Article("001", aid, *STORIES[aid], None, None, None, None, None)
        rules = StoringRules(1, True, SUMMARY.prompt.version, MODEL, None, "crawl")
        with self.people.transaction():
            ArticleStore(self.people, rules).add(article, ListedPage("001", aid, 0), HERE)
        if aid in self.news.taken_down or aid in self.news.articles:
            return
        row = self.people.execute("SELECT id FROM news.article WHERE aid = %s", (aid,)).fetchone()
        assert row is not None, "it was not stored"
        original = self.news.original(STORIES[aid][1])
        self.news.articles[aid] = StoredArticle(row[0], STORIES[aid][1], original)
        if original is None or not self.news.of_kind(JobType.SUMMARY, original):
            self.add_job(aid, JobType.SUMMARY, input_hash(*STORIES[aid]))

    def take_down(self, aid: str) -> None:
        with self.people.transaction():
            was_stored = repair_store.take_down(
                self.people,
                "001",
                aid,
                prompt_version=SUMMARY.prompt.version,
                model=MODEL,
                min_characters=1,
            )
        assert was_stored is (aid in self.news.articles)
        heir = self.news.take_down(aid)
        if heir and not self.news.articles[heir].is_empty:
            self.add_job(heir, JobType.SUMMARY, input_hash(*STORIES[heir]))

    def empty_bodies(self) -> None:
        self.clock.move(1)  # what was stored just now is not older than no days
        with self.people.transaction():
            emptied, failed = repair_store.empty_bodies(self.people, 0)
        fresh = [one for one in self.news.articles.values() if not one.is_empty]
        for article in fresh:
            article.is_empty = True
        hopeless = [job for job in self.news.of_kind(JobType.SUMMARY) if job.status in WAITING]
        assert (emptied, failed) == (len(fresh), len(hopeless))
        for job in hopeless:
            job.become("FAILED", "body_emptied")

    # What runs do.

    def claim(self, run_id: str, after: int) -> None:
        """What a run takes that begins so many seconds later."""
        self.clock.move(after)
        for kind in KINDS:
            self.claim_kind(run_id, kind)

    def claim_kind(self, run_id: str, kind: JobType) -> list[Claim]:
        session = self.sessions[run_id]
        spent = [
            job
            for job in self.news.of_kind(kind)
            if job.attempt > RETRIES.most and job.is_lost(self.clock.now)
        ]
        assert job_store.fail_spent_leases(session, kind, RETRIES.most) == len(spent)
        for job in spent:
            job.become("FAILED", "lease_lost")
        expected = [job for job in self.news.of_kind(kind) if self.news.is_claimable(job, self.clock.now)]
        claims = job_store.claim_jobs(
            session,
            kind,
            [HERE],
            run_id=run_id,
            limit=10,
            lease_seconds=LEASE.total_seconds(),
            model=MODEL,
            provider_key=PROVIDER_KEY,
        )
        assert {one.job_id: one.lease_was_lost for one in claims} == {
            job.id: job.status == "RUNNING" for job in expected
        }
        for job in expected:
            job.become("RUNNING", job.error)
            job.holder, job.attempt = run_id, job.attempt + 1
            job.lease_until = self.clock.now + LEASE
        self.claims += claims
        return claims

    def finish(self, number: int, how: str) -> None:
        if not self.claims:
            return
        # Half of those that need not hold: one that differs from the living claim by its run alone.
        holds, number = (
            (self.news.is_nearly_held_by, number - 1) if number % 4 == 1 else (self.news.held_by, number)
        )
        claim = one_of(self.claims, number, holds)
        if how in FAILURES:
            self.fail(claim, how)
        else:
            {"success": self.succeed, "release": self.release, "renew": self.renew}[how](claim)

    def succeed(self, claim: Claim) -> None:
        self.written += 1
        text = f"답 {self.written}"
        is_summary = claim.text in BODIES
        kind = SUMMARY if is_summary else result_kinds.INSIGHT
        result: Any = (
            Summary(summary3=("하나", "둘", "셋"), summary_full=text)
            if is_summary
            else tuple(Insight(title=text, detail="", why_it_matters="") for _ in range(3))
        )
        writer = self.writer(kind, claim)
        writer.succeed(claim, result, Usage())
        self.write(writer, claim)
        job = self.news.held_by(claim)
        if job is None:
            return
        job.become("SUCCESS")
        job.results[job.redo] = (job.asked_at, text)
        if is_summary:
            self.news.drop_superseded(job.aid)
            self.add_job(job.aid, JobType.INSIGHT, input_hash(claim.title, text))

    def fail(self, claim: Claim, how: str) -> None:
        writer = self.writer(SUMMARY, claim)
        if how == "FAILED":
            writer.fail(claim, "refused", "")
        elif how == "SUSPENDED":
            writer.suspend(claim, "no_money", "", "QUOTA")
        else:
            writer.try_again(claim, "timeout", "")
        self.write(writer, claim)
        job = self.news.held_by(claim)
        if job is None:
            return
        if how in ("FAILED", "SUSPENDED"):
            job.become(how, "refused" if how == "FAILED" else "no_money")
        elif claim.attempt > RETRIES.most:
            job.become("FAILED", "timeout")
        else:
            delay = 30 * 2 ** (claim.attempt - 1)
            job.become("RETRY_WAIT", "timeout", self.clock.now + timedelta(seconds=delay))

    def release(self, claim: Claim) -> None:
        released = job_store.release_claims(self.sessions[claim.run_id], claim.run_id, [claim])
        job = self.news.held_by(claim)
        assert released == ({job.id} if job else set())
        if job:
            job.become("PENDING", job.error)
            job.attempt -= 1

    def renew(self, claim: Claim) -> None:
        """By run alone: a run that has the job again renews it whichever of its claims it names."""
        kept = job_store.renew_leases(
            self.sessions[claim.run_id], claim.run_id, [claim.job_id], LEASE.total_seconds()
        )
        job = self.news.jobs.get(claim.job_id)
        is_ours = job is not None and (job.status, job.holder) == ("RUNNING", claim.run_id)
        assert kept == ({claim.job_id} if is_ours else set())
        if job and is_ours:
            job.lease_until = self.clock.now + LEASE

    def run_ends(self, run_id: str) -> None:
        left = [job for job in self.news.jobs.values() if (job.status, job.holder) == ("RUNNING", run_id)]
        assert job_store.free_jobs_of_run(self.people, run_id) == len(left)
        for job in left:
            job.become("RETRY_WAIT", "run_ended", self.clock.now + timedelta(minutes=1))

    def repair(self) -> None:
        self.resume_suspended()
        self.requeue_failed()

    def resume_suspended(self) -> None:
        back = self.news.that_count("SUSPENDED")
        assert set(repair_store.resume_suspended(self.people, [], "QUOTA")) == {job.id for job in back}
        for job in back:
            job.start_again()

    def requeue_failed(self) -> None:
        back = [job for job in self.news.that_count("FAILED") if self.news.has_text(job)]
        failed = [job.id for job in self.news.jobs.values() if job.status == "FAILED"]
        assert repair_store.requeue_failed(self.people, failed, None) == {job.id for job in back}
        for job in back:
            job.start_again()

    def redo(self, kind: JobType, run_id: str) -> None:
        again = [job for job in self.news.of_kind(kind) if self.news.may_be_redone(job, run_id)]
        asked = job_store.redo_results(
            self.sessions[run_id],
            kind,
            [HERE],
            prompt_version=KINDS[kind].prompt.version,
            model=MODEL,
            run_ids=[run_id],
            everything=True,
        )
        assert asked == len(again)
        for job in again:
            job.start_again()
            job.redo, job.asked_at = job.redo + 1, self.clock.now

    def add_job(self, aid: str, kind: JobType, asked_about: str) -> None:
        row = self.people.execute(
            "SELECT id FROM news.ai_job WHERE article_id = %s AND job_type = %s AND input_hash = %s",
            (self.news.articles[aid].id, kind, asked_about),
        ).fetchone()
        assert row is not None, "there is no job for it"
        self.news.jobs[row[0]] = Job(row[0], aid, kind, asked_about, self.clock.now)

    def writer(self, kind: result_kinds.ResultKind, claim: Claim) -> ResultWriter:
        asked = Asked(kind.prompt.version, MODEL, MODEL)
        return ResultWriter(kind, claim.run_id, self.sessions[claim.run_id], RETRIES, asked)

    def write(self, writer: ResultWriter, claim: Claim) -> None:
        with self.sessions[claim.run_id].transaction():
            writer.write()
        assert writer.outcome.leases_lost == (self.news.held_by(claim) is None)

    # What must hold after every step.

    @invariant()
    def the_tables_say_what_the_model_says(self) -> None:
        assert self.people.execute(JOBS).fetchall() == [
            (
                *(job.id, job.aid, job.kind, job.input_hash, job.status, job.attempt, job.holder),
                *(job.lease_until, job.due_at, job.reason, job.error, job.redo, job.asked_at),
            )
            for _, job in sorted(self.news.jobs.items())
        ]
        assert set(self.people.execute(ARTICLES)) == {
            (aid, one.duplicate_of, one.is_empty) for aid, one in self.news.articles.items()
        }
        assert self.people.execute(RESULTS).fetchall() == [
            (job.id, redo, *result)
            for _, job in sorted(self.news.jobs.items())
            for redo, result in sorted(job.results.items())
        ]

    @invariant()
    def what_is_told_to_be_due_is_what_a_run_could_take(self) -> None:
        due = sum(one.jobs for one in job_store.due_jobs_by_partition(self.people, 10))
        assert due == sum(self.news.is_claimable(job, self.clock.now) for job in self.news.jobs.values())

    @invariant()
    def no_job_is_tried_more_often_than_it_may(self) -> None:
        assert all(job.attempt <= RETRIES.most + 1 for job in self.news.jobs.values())


Connect = Callable[..., psycopg.Connection]


@pytest.fixture
def new_model(connect: Connect) -> Callable[[], Jobs]:
    """Makes models on the same sessions."""
    sessions = {name: connect() for name in ("people", "run-1", "run-2")}
    clock = Clock(*sessions.values())
    return lambda: Jobs(sessions, clock)


def test_whatever_happens_jobs_and_results_are_those_of_the_model(new_model: Callable[[], Jobs]) -> None:
    try_histories(new_model)


@pytest.mark.parametrize("end", ["release", "fail", "run_ends"])
def test_a_summary_that_lost_its_body_while_it_was_asked_for_starts_no_run(
    end: str, new_model: Callable[[], Jobs]
) -> None:
    model = new_model()
    model.begin(is_done=False)
    claim, _ = model.claim_kind("run-1", JobType.SUMMARY)
    model.empty_bodies()
    {
        "release": lambda: model.release(claim),
        "fail": lambda: model.fail(claim, "for now"),
        "run_ends": lambda: model.run_ends("run-1"),
    }[end]()
    model.clock.move(601)
    assert job_store.due_jobs_by_partition(model.people, 10) == []
    assert model.claim_kind("run-2", JobType.SUMMARY) == []
