"""The UI by clicking, as a person on call does: the graph, a backfill, a partition, a rerun from failure."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import LiteralString

import boto3
import psycopg
import pytest
from botocore.config import Config
from playwright.sync_api import Page, expect

from local_stack.front_pages.sites import domains
from local_stack.stack import Stack
from orchestration.partitions import PIPELINES, raw_key
from tests.end_to_end import ui_pages
from tests.end_to_end.project import Project, addresses, ask, project_in, running_dev

pytestmark = pytest.mark.skipif(ui_pages.CHROMIUM is None, reason="there is no chromium")

DAY = date(2026, 11, 20)
SOURCE = "kr/books"
FILE = f"raw/country=kr/category=books/date={DAY}/raw_0001.json"
HERE = {"repositoryLocationName": "granary", "repositoryName": "__repository__"}

ADD_SOURCE = """
mutation Add($key: String!, $here: RepositorySelector!) {
  addDynamicPartition(partitionKey: $key, partitionsDefName: "raw_sources", repositorySelector: $here) {
    __typename
  }
}
"""
LAUNCH = """
mutation Launch($params: ExecutionParams!) {
  launchRun(executionParams: $params) { __typename ... on LaunchRunSuccess { run { id } } }
}
"""
STEPS = """
query Steps($id: ID!) {
  runOrError(runId: $id) { ... on Run { stepKeysToExecute tags { key value } } }
}
"""
STORED = "SELECT day::text, count(*) FROM news.article WHERE section = 'FINANCE' GROUP BY day"


@dataclass(frozen=True)
class Dev:
    """A running `make dev`: where its UI is, and the variables of its services."""

    ui: str
    variables: dict[str, str]

    def put_file(self, body: bytes) -> None:
        """The one raw file of the source and day."""
        client = boto3.client(
            "s3",
            endpoint_url=self.variables["S3_ENDPOINT_URL"],
            aws_access_key_id=self.variables["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.variables["AWS_SECRET_ACCESS_KEY"],
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}),
        )
        client.put_object(Bucket=self.variables["S3_BUCKET"], Key=FILE, Body=body)

    def execute(self, statement: LiteralString) -> None:
        """On the database, as its owner."""
        with psycopg.connect(self.variables["DATABASE_URL"]) as connection:
            connection.execute(statement)

    def launch_partition(self) -> str:
        """The id of a run over the source and day."""
        ask(self.ui, ADD_SOURCE, {"key": SOURCE, "here": HERE})
        tags = {"dagster/partition": str(raw_key(DAY, SOURCE)), "dagster/partition/day": str(DAY)}
        params = {
            "selector": {**HERE, "pipelineName": "raw_files_partitions"},
            "runConfigData": "{}",
            "executionMetadata": {
                "tags": [
                    {"key": key, "value": value}
                    for key, value in {**tags, "dagster/partition/source": SOURCE}.items()
                ]
            },
        }
        launched = ask(self.ui, LAUNCH, {"params": params})["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return str(launched["run"]["id"])


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    """One for all tests here: each has its own partitions."""
    with (
        project_in(tmp_path_factory.mktemp("ui") / "project") as project,
        running_dev(_by_hand(project)) as started,
    ):
        ui, _ = addresses(started)
        yield Dev(ui, Stack(project.local, environ=project.environ).environment())


def _by_hand(project: Project) -> Project:
    """Nothing runs by itself there, so that what is seen comes of the clicks."""
    project.environ["GRANARY_PIPELINES"] = ""
    return project


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with ui_pages.browser_page() as opened:
        yield opened


def test_the_graph_shows_every_pipeline(dev: Dev, page: Page) -> None:
    ui_pages.open_graph(page, dev.ui)
    for pipeline in PIPELINES:
        expect(page.get_by_text(pipeline, exact=True).first).to_be_visible()


def test_a_backfill_started_by_clicking_ends_green_and_its_partitions_tell_of_themselves(
    dev: Dev, page: Page
) -> None:
    ui_pages.launch_backfill(page, dev.ui, "economy_articles", "[2026-11-18...2026-11-20]", ["FINANCE"])
    ui_pages.backfill_succeeds(page)

    with psycopg.connect(dev.variables["DATABASE_URL"]) as connection:
        stored: dict[str, int] = dict(connection.execute(STORED).fetchall())
    for day in ("2026-11-18", "2026-11-19", "2026-11-20"):
        ui_pages.open_partition(page, dev.ui, "economy_articles", f"{day}|FINANCE")
        assert ui_pages.metadata(page)["items_done"] == str(stored[day]) != "0"


def test_a_failed_run_is_done_again_by_clicking_from_where_it_failed(dev: Dev, page: Page) -> None:
    dev.put_file(json.dumps({"domains": domains()[:2]}).encode())
    dev.execute("ALTER TABLE raw.domain RENAME TO domain_away")
    failed = dev.launch_partition()
    ui_pages.open_run(page, dev.ui, failed)
    ui_pages.run_ends_as(page, "Failure")
    expect(page.get_by_text('relation "raw.domain" does not exist').first).to_be_visible()

    dev.execute("ALTER TABLE raw.domain_away RENAME TO domain")
    again = ui_pages.rerun_from_failure(page)
    assert again != failed
    ui_pages.run_ends_as(page, "Success")
    run = ask(dev.ui, STEPS, {"id": again})["runOrError"]
    assert sorted(run["stepKeysToExecute"]) == ["domain_metadata", "raw_domains"]
    assert {"key": "dagster/parent_run_id", "value": failed} in run["tags"]
    with psycopg.connect(dev.variables["DATABASE_URL"]) as connection:
        files = connection.execute("SELECT status, rows FROM raw.file WHERE key = %s", (FILE,)).fetchall()
    assert files == [("PROCESSED", 2)]
