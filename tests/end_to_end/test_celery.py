"""deploy/celery with two workers: the same rows, a killed worker, a canceled run, what a warm run takes."""

from collections.abc import Iterator
from datetime import date
from typing import Any

import boto3
import dagster as dg
import psycopg
import pytest
from botocore.config import Config

from local_stack.demo_raw_files_bucket import demo_files
from local_stack.stack import Stack
from orchestration.partitions import SECTIONS, news_key, news_range_tags, raw_sources
from tests.end_to_end.celery_workers import SECONDS, CeleryDagster, celery_dagster
from tests.end_to_end.project import Project, project_in, wait_for
from tests.integration.stand_ins import StandIn

DAY, KILLED_DAY, CANCELED_DAY = date(2026, 11, 26), date(2026, 11, 25), date(2026, 11, 24)
SECTION = "FINANCE"
SOURCE = "us/culture"
WARM_RUNS = 3

# Neither ids, moments nor addresses of stand-ins: what a reader sees.
ROWS = {
    "articles": """
        SELECT a.oid, a.aid, a.day, a.section, a.title, a.body, a.press, a.reporter, o.oid, o.aid,
               a.completed_at IS NOT NULL
        FROM news.article a LEFT JOIN news.article o ON o.id = a.duplicate_of""",
    "jobs": """
        SELECT oid, aid, job_type, j.status, redo_number
        FROM news.ai_job j JOIN news.article a ON a.id = article_id""",
    "summaries": """
        SELECT oid, aid, summary3, summary_full, publishable
        FROM news.summary JOIN news.article ON id = article_id""",
    "term_cards": """
        SELECT oid, aid, position, term, highlight_text
        FROM news.term_card JOIN news.article ON id = article_id""",
    "insights": """
        SELECT oid, aid, position, i.title, detail, why_it_matters
        FROM news.insight i JOIN news.article a ON a.id = article_id""",
    "quizzes": """
        SELECT oid, aid, kind, position, question, options, answer_index, explanations
        FROM news.quiz JOIN news.article ON id = article_id""",
    "files": "SELECT key, status, rows, rejected, sha256 FROM raw.file",
    "domains": """
        SELECT domain, status, p.title, p.description, language, content_hash
        FROM raw.domain d LEFT JOIN raw.front_page p ON p.domain_id = d.id""",
    "sightings": """
        SELECT key, domain, rank, s.title
        FROM raw.domain_sighting s JOIN raw.domain d ON d.id = domain_id""",
}

Rows = dict[str, list[tuple[Any, ...]]]


def rows(database_url: str) -> Rows:
    """What is stored, in an order of its own."""
    with psycopg.connect(database_url) as connection:
        return {
            name: sorted(connection.execute(statement).fetchall(), key=repr)
            for name, statement in ROWS.items()
        }


def fill_bucket(variables: dict[str, str]) -> None:
    """The demo's new files of one source, as files of DAY."""
    client = boto3.client(
        "s3",
        endpoint_url=variables["S3_ENDPOINT_URL"],
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )
    found = [file for file in demo_files(DAY) if file.source == SOURCE]
    assert len(found) > 1
    for file in found:
        client.put_object(Bucket=variables["S3_BUCKET"], Key=file.key, Body=file.body)


def started(project: Project) -> dict[str, str]:
    """The variables of the project's stack, which runs, has the files and knows their source."""
    up = project.make("up")
    assert up.returncode == 0, up.stderr
    variables = Stack(project.local, environ=project.environ).environment()
    fill_bucket(variables)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        with dg.DagsterInstance.get() as instance:
            instance.add_dynamic_partitions(str(raw_sources.name), [SOURCE])
    return variables


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with project_in(tmp_path_factory.mktemp("celery") / "project") as made:
        yield made
    made.wait_until_nothing_runs()


@pytest.fixture(scope="module")
def in_process(folder: Project) -> Rows:
    """The rows after the ordinary way; nothing else is left of it."""
    variables = started(folder)
    span = f"{news_key(DAY, SECTIONS[0])}...{news_key(DAY, SECTIONS[-1])}"
    for what in (
        f"""--assets 'group:"economy_news"' --partition-range '{span}'""",
        f"--assets raw_file_manifest,raw_domains,domain_metadata --partition '{DAY}|{SOURCE}'",
    ):
        done = folder.shell(f"dg launch {what}")
        assert done.returncode == 0, done.stderr
    found = rows(variables["DATABASE_URL"])
    Stack(folder.local, environ={}).remove_data()
    return found


@pytest.fixture(scope="module")
def celery(folder: Project, in_process: object) -> Iterator[CeleryDagster]:
    """Everything anew, with two workers."""
    started(folder)
    with celery_dagster(folder) as running:
        yield running


@pytest.fixture
def site(celery: CeleryDagster) -> Iterator[StandIn]:
    """The news site, without faults before and after."""
    made = StandIn(celery.variables["NAVER_BASE_URL"])
    yield made
    made.clear_faults()


def test_two_workers_give_the_rows_that_one_process_gives(celery: CeleryDagster, in_process: Rows) -> None:
    day = news_range_tags(DAY, SECTIONS)
    for job, tags, taken_by in (
        ("economy_news_crawl", day, ("crawl", "crawl")),
        ("economy_news_enrich", day, ("llm", "llm")),
        ("raw_files_partitions", {"dagster/partition": f"{DAY}|{SOURCE}"}, ("crawl", "crawl")),
        ("raw_files_report", {"dagster/partition": str(DAY)}, ("default", "crawl")),
    ):
        run = celery.submit(job, tags)
        assert celery.ended(run) is dg.DagsterRunStatus.SUCCESS, celery.said(run)
        assert celery.taken_by(run) == taken_by, job
    found = rows(celery.variables["DATABASE_URL"])
    assert all(found.values()), {name: len(stored) for name, stored in found.items()}
    for name, stored in in_process.items():
        assert found[name] == stored, name


def test_a_warm_small_run_is_measured(celery: CeleryDagster) -> None:
    took = []
    for _ in range(WARM_RUNS + 1):
        run = celery.submit("raw_files_report", {"dagster/partition": str(DAY)})
        assert celery.ended(run) is dg.DagsterRunStatus.SUCCESS, celery.said(run)
        took.append(celery.seconds(run))
    for total, itself in took[1:]:
        print(f"a warm small run: {total:.2f} s from submission to end, {itself:.2f} s of it the run itself")


def crawls_until_it_hangs(celery: CeleryDagster, site: StandIn, day: date) -> str:
    """The id of a crawl that has stored articles and waits for the next one."""
    site.fault(path="/article/", skip=10, times=1, hang=True)
    run = celery.submit("economy_news_crawl", news_range_tags(day, [SECTION]))
    wait_for(lambda: site.get("faults")[0]["fired"] == 1, f"run {run} is in its middle", SECONDS)
    return run


def stored(celery: CeleryDagster, day: date) -> list[str]:
    """The day's articles, as the site names them, one for each row."""
    with psycopg.connect(celery.variables["DATABASE_URL"]) as connection:
        found = connection.execute(
            "SELECT oid || '/' || aid FROM news.article JOIN news.article_section s ON s.article_id = id "
            "WHERE day = %s AND s.section = %s",
            (day, SECTION),
        )
        return sorted(name for (name,) in found)


def test_the_run_of_a_killed_worker_is_tried_again_and_no_row_is_doubled(
    celery: CeleryDagster, site: StandIn
) -> None:
    run = crawls_until_it_hangs(celery, site, KILLED_DAY)
    before = stored(celery, KILLED_DAY)
    celery.kill("crawl")
    celery.start_worker("crawl")

    assert celery.ended(run) is dg.DagsterRunStatus.FAILURE
    assert any("no Celery worker has the run's task any more" in message for message in celery.said(run))
    retry = celery.retry_of(run)
    assert celery.ended(retry) is dg.DagsterRunStatus.SUCCESS, celery.said(retry)
    assert celery.taken_by(retry) == ("crawl", "crawl")
    after = stored(celery, KILLED_DAY)
    assert 0 < len(before) < len(after)
    whole = celery.submit("economy_news_crawl", news_range_tags(KILLED_DAY, [SECTION]))
    assert celery.ended(whole) is dg.DagsterRunStatus.SUCCESS
    assert stored(celery, KILLED_DAY) == after == sorted(set(after))


def test_a_canceled_run_ends_canceled_at_once_and_is_not_tried_again(
    celery: CeleryDagster, site: StandIn
) -> None:
    run = crawls_until_it_hangs(celery, site, CANCELED_DAY)
    celery.cancel(run)

    assert celery.ended(run) is dg.DagsterRunStatus.CANCELED
    said = celery.said(run)
    # By itself, not because run monitoring lost patience.
    assert not any("timed out" in message for message in said), said
    site.clear_faults()
    # Its worker is there for the next one, and a retry would have come before that.
    following = celery.submit("economy_news_crawl", news_range_tags(CANCELED_DAY, [SECTION]))
    assert celery.ended(following) is dg.DagsterRunStatus.SUCCESS
    assert celery.run(run).status is dg.DagsterRunStatus.CANCELED
    failures = celery.instance.all_logs(run, of_type=dg.DagsterEventType.RUN_FAILURE)
    assert not failures
    assert celery.children(run) == []
