"""What people repair, empty and take down, through the jobs that they launch."""

from collections.abc import Callable
from datetime import date

import psycopg
import pytest

from assets.economy_news import repair_store, store
from tests.integration.economy_news.dagster_runs import DagsterRuns
from tests.integration.stand_ins import StandIn

DAY = date(2026, 11, 24)
FINANCE = ["FINANCE"]


@pytest.fixture
def runs(database_url: str, site: StandIn, openai_api: StandIn) -> DagsterRuns:
    """A section that is crawled."""
    made = DagsterRuns(database_url, site, openai_api)
    assert made.run("economy_news_crawl", DAY, FINANCE).success
    return made


def statuses(connection: psycopg.Connection) -> dict[str, int]:
    return dict(connection.execute("SELECT status, count(*) FROM news.ai_job GROUP BY 1").fetchall())


def ids(connection: psycopg.Connection, status: str) -> list[int]:
    return [row[0] for row in connection.execute("SELECT id FROM news.ai_job WHERE status = %s", (status,))]


def failure(result: object, op: str) -> str:
    return str(result.failure_data_for_node(op))  # type: ignore[attr-defined]


@pytest.mark.parametrize("by", ["reason", "ids"])
def test_resume_opens_the_gate_and_gives_suspended_jobs_all_attempts_again(
    by: str, runs: DagsterRuns, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    openai_api.fault(status=429, code="insufficient_quota")
    runs.run("economy_news_enrich", DAY, FINANCE)
    suspended = ids(connection, "SUSPENDED")
    assert suspended
    openai_api.clear_faults()

    config = {"reason": "QUOTA"} if by == "reason" else {"job_ids": suspended}
    assert runs.run("economy_news_resume_suspended", ops={"resume_suspended_jobs": config}).success
    assert connection.execute("SELECT count(*) FROM granary.api_gate").fetchone() == (0,)
    assert ids(connection, "SUSPENDED") == []
    attempts = connection.execute("SELECT DISTINCT attempt FROM news.ai_job WHERE id = ANY(%s)", (suspended,))
    assert attempts.fetchall() == [(0,)]
    assert runs.run("economy_news_enrich", DAY, FINANCE).success
    assert set(statuses(connection)) == {"SUCCESS"}


def test_resuming_a_job_that_is_not_suspended_is_an_error_that_says_so(
    runs: DagsterRuns, connection: psycopg.Connection
) -> None:
    pending = ids(connection, "PENDING")[0]
    config = {"job_ids": [pending, 999_999]}
    result = runs.run("economy_news_resume_suspended", ops={"resume_suspended_jobs": config})
    assert not result.success
    said = failure(result, "resume_suspended_jobs")
    assert f"job {pending} is PENDING" in said
    assert "job 999999 does not exist" in said


def test_a_resume_that_names_nothing_opens_the_gate_after_the_cap_was_raised(
    database_url: str, site: StandIn, openai_api: StandIn, connection: psycopg.Connection
) -> None:
    poor = DagsterRuns(database_url, site, openai_api, daily_spending_cap_usd="0.01")
    rich = DagsterRuns(database_url, site, openai_api)
    poor.run("economy_news_crawl", DAY, FINANCE)
    assert not poor.run("economy_news_enrich", DAY, FINANCE).success
    assert connection.execute("SELECT reason FROM granary.api_gate").fetchone() == ("BUDGET",)
    assert not rich.run("economy_news_enrich", DAY, FINANCE).success
    assert rich.run("economy_news_resume_suspended").success
    assert rich.run("economy_news_enrich", DAY, FINANCE).success
    assert set(statuses(connection)) == {"SUCCESS"}


def test_requeue_tries_failed_jobs_from_the_start(
    runs: DagsterRuns, connection: psycopg.Connection, openai_api: StandIn
) -> None:
    openai_api.fault(schema="article_summary", content="refusal", times=2)
    runs.run("economy_news_enrich", DAY, FINANCE)
    failed = ids(connection, "FAILED")
    assert len(failed) == 2
    config = {"error_code": "refusal"}
    assert runs.run("economy_news_requeue_failed", ops={"requeue_failed_jobs": config}).success
    assert sorted(ids(connection, "PENDING")) == sorted(failed)
    assert runs.run("economy_news_enrich", DAY, FINANCE).success
    assert set(statuses(connection)) == {"SUCCESS"}
    wrong = runs.run("economy_news_requeue_failed", ops={"requeue_failed_jobs": {"job_ids": failed[:1]}})
    assert f"job {failed[0]} is SUCCESS" in failure(wrong, "requeue_failed_jobs")


def take_down(runs: DagsterRuns, oid: str, aid: str) -> bool:
    url = f"https://n.news.naver.com/mnews/article/{oid}/{aid}"
    return runs.run("economy_news_takedown", ops={"take_article_down": {"url": url}}).success


def test_a_takedown_removes_all_that_was_made_and_the_article_never_comes_back(
    runs: DagsterRuns, connection: psycopg.Connection
) -> None:
    runs.run("economy_news_enrich", DAY, FINANCE)
    article_id, oid, aid = connection.execute(
        "SELECT id, oid, aid FROM news.article JOIN news.summary ON article_id = id ORDER BY id LIMIT 1"
    ).fetchone() or (0, "", "")
    mine = {
        row[0]
        for row in connection.execute(
            "SELECT term_id FROM news.term_card WHERE article_id = %s AND term_id NOT IN "
            "(SELECT term_id FROM news.term_card WHERE article_id <> %s)",
            (article_id, article_id),
        )
    }
    assert take_down(runs, oid, aid)

    for table in ("article_section", "ai_job", "ai_result", "summary", "term_card", "insight", "quiz"):
        count = f"SELECT count(*) FROM news.{table} WHERE article_id = {article_id}"  # noqa: S608
        assert connection.execute(count).fetchone() == (0,), table
    assert mine.isdisjoint(row[0] for row in connection.execute("SELECT id FROM news.term"))
    assert runs.run("economy_news_crawl", DAY, ["FINANCE", "STOCK"]).success
    again = connection.execute("SELECT count(*) FROM news.article WHERE oid = %s AND aid = %s", (oid, aid))
    assert again.fetchone() == (0,)


def test_a_takedown_while_a_crawl_holds_the_page_keeps_it_away(
    runs: DagsterRuns, connection: psycopg.Connection
) -> None:
    oid, aid = connection.execute("SELECT oid, aid FROM news.article LIMIT 1").fetchone() or ("", "")
    assert take_down(runs, oid, aid)
    connection.execute(
        "UPDATE news.listed_page SET status = 'LISTED' WHERE oid = %s AND aid = %s AND section = 'FINANCE'",
        (oid, aid),
    )
    assert runs.run("economy_news_crawl", DAY, FINANCE).success
    where = "FROM news.listed_page WHERE oid = %s AND aid = %s AND section = 'FINANCE'"
    assert connection.execute(f"SELECT status {where}", (oid, aid)).fetchone() == ("TAKEN_DOWN",)
    again = connection.execute("SELECT count(*) FROM news.article WHERE oid = %s AND aid = %s", (oid, aid))
    assert again.fetchone() == (0,)


def test_a_near_duplicate_takes_the_place_of_an_article_that_is_taken_down(
    database_url: str, site: StandIn, openai_api: StandIn, connection: psycopg.Connection
) -> None:
    runs = DagsterRuns(database_url, site, openai_api)
    assert runs.run("economy_news_crawl", DAY).success
    assert runs.run("economy_news_enrich", DAY).success
    original, oid, aid = connection.execute(
        "SELECT id, oid, aid FROM news.article WHERE id IN (SELECT duplicate_of FROM news.article)"
    ).fetchone() or (0, "", "")
    copies = [
        row[0]
        for row in connection.execute(
            "SELECT id FROM news.article WHERE duplicate_of = %s ORDER BY id", (original,)
        )
    ]
    assert len(copies) == 2
    assert take_down(runs, oid, aid)
    heirs = connection.execute(
        "SELECT id, duplicate_of FROM news.article WHERE id = ANY(%s) ORDER BY id", (copies,)
    ).fetchall()
    assert heirs == [(copies[0], None), (copies[1], copies[0])]
    assert runs.run("economy_news_enrich", DAY).success
    states = connection.execute("SELECT state FROM news.article_ai WHERE article_id = ANY(%s)", (copies,))
    assert states.fetchall() == [("DONE",), ("DONE",)]


def test_an_address_that_is_no_article_is_refused(runs: DagsterRuns) -> None:
    result = runs.run(
        "economy_news_takedown", ops={"take_article_down": {"url": "https://n.news.naver.com/"}}
    )
    assert "not the address of an article" in failure(result, "take_article_down")


def test_retention_empties_old_bodies_and_fails_the_summaries_that_need_them(
    runs: DagsterRuns, connection: psycopg.Connection
) -> None:
    old = ids(connection, "PENDING")[0]
    connection.execute(
        "UPDATE news.article SET stored_at = now() - interval '31 days' "
        "WHERE id = (SELECT article_id FROM news.ai_job WHERE id = %s)",
        (old,),
    )
    assert runs.run("economy_news_retention").success
    emptied = connection.execute(
        "SELECT body, title <> '' FROM news.article WHERE body_emptied_at IS NOT NULL"
    ).fetchall()
    assert emptied == [("", True)]
    job = connection.execute("SELECT status, error_code FROM news.ai_job WHERE id = %s", (old,)).fetchone()
    assert job == ("FAILED", "body_emptied")
    assert statuses(connection)["PENDING"] > 0

    # Nothing is left to be summarised, so nobody can have it summarised.
    runs.run("economy_news_requeue_failed", ops={"requeue_failed_jobs": {"error_code": "body_emptied"}})
    connection.execute("UPDATE news.ai_job SET status = 'PENDING' WHERE id = %s", (old,))
    assert runs.run("economy_news_enrich", DAY, FINANCE).success
    made = connection.execute("SELECT count(*) FROM news.ai_result WHERE job_id = %s", (old,)).fetchone()
    assert made == (0,)


def test_a_changed_page_is_taken_over_only_within_the_recheck_days(
    database_url: str, site: StandIn, openai_api: StandIn, connection: psycopg.Connection
) -> None:
    unwatched = DagsterRuns(database_url, site, openai_api)
    watching = DagsterRuns(database_url, site, openai_api, recheck_days=3)
    assert unwatched.run("economy_news_crawl", DAY, FINANCE).success
    oid, aid = connection.execute("SELECT oid, aid FROM news.article LIMIT 1").fetchone() or ("", "")
    site.post("articles", date=DAY.isoformat(), oid=oid, aid=aid, title="제목이 바뀐 기사")
    title = "SELECT title FROM news.article WHERE oid = %s AND aid = %s"

    assert unwatched.run("economy_news_crawl", DAY, FINANCE).success
    assert watching.run("economy_news_crawl", DAY, FINANCE).success
    assert connection.execute(title, (oid, aid)).fetchone() != ("제목이 바뀐 기사",)  # looked at just now

    connection.execute("UPDATE news.listed_page SET looked_at = now() - interval '2 hours'")
    assert unwatched.run("economy_news_crawl", DAY, FINANCE).success
    assert connection.execute(title, (oid, aid)).fetchone() != ("제목이 바뀐 기사",)
    assert watching.run("economy_news_crawl", DAY, FINANCE).success
    assert connection.execute(title, (oid, aid)).fetchone() == ("제목이 바뀐 기사",)


def test_storing_an_article_waits_for_its_takedown(
    runs: DagsterRuns, connect: Callable[..., psycopg.Connection]
) -> None:
    first, second = connect(), connect()
    second.execute("SET lock_timeout = '100ms'")
    oid, aid = first.execute("SELECT oid, aid FROM news.article LIMIT 1").fetchone() or ("", "")
    with first.transaction():
        assert repair_store.take_down(
            first, oid, aid, prompt_version="a-version", model="a-model", min_characters=1_000
        )
        with pytest.raises(psycopg.errors.LockNotAvailable), second.transaction():
            store.lock_page(second, oid, aid)
    with second.transaction():
        store.lock_page(second, oid, aid)
        assert store.is_taken_down(second, oid, aid)
