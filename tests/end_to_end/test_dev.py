"""`make dev`: a backfill goes through beside the live crawl, the door answers, Ctrl-C stops everything."""

import json
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from datetime import date, datetime, timedelta

import psycopg
import pytest

from local_stack.stack import Stack
from orchestration.partitions import SECTIONS, news_key
from orchestration.schedules import SEOUL
from tests.end_to_end.project import Project, addresses, ask, running_dev, wait_for

BACKFILLED = [date(2026, 11, 18) + timedelta(days=number) for number in range(3)]

LAUNCH = """
mutation Launch($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}
"""
STATUS = """
query Status($id: String!) {
  partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } }
}
"""


@pytest.fixture
def dev(project: Project) -> Iterator["subprocess.Popen[str]"]:
    """`make dev`; it ends with the test, also where that fails."""
    with running_dev(project) as started:
        yield started


def test_a_backfill_and_the_live_crawl_go_side_by_side_and_ctrl_c_stops_all(
    project: Project, dev: "subprocess.Popen[str]"
) -> None:
    ui, door = addresses(dev)
    variables = Stack(project.local, environ=project.environ).environment()

    with urllib.request.urlopen(f"{door}/readyz", timeout=10) as answer:
        assert json.load(answer) == {"status": "ready"}
    keys = [news_key(day, section) for day in BACKFILLED for section in SECTIONS]
    launched = ask(
        ui,
        LAUNCH,
        {"params": {"assetSelection": [{"path": ["economy_articles"]}], "partitionNames": keys}},
    )["launchPartitionBackfill"]
    assert launched["__typename"] == "LaunchBackfillSuccess", launched
    today = datetime.now(SEOUL).date()
    span = f"{news_key(today, 'FINANCE')}...{news_key(today, 'GENERAL')}"
    live = project.shell(f"dg launch --assets economy_articles --partition-range '{span}'")
    assert live.returncode == 0, live.stderr

    backfill = {"id": launched["backfillId"]}
    wait_for(
        lambda: ask(ui, STATUS, backfill)["partitionBackfillOrError"]["status"] == "COMPLETED_SUCCESS",
        "the backfill is green",
    )
    with psycopg.connect(variables["DATABASE_URL"], autocommit=True) as connection:
        days = {row[0] for row in connection.execute("SELECT DISTINCT day FROM news.article")}
        assert days >= {*BACKFILLED}
        # Nobody launched the enrichment: the sensor does, for every day that has jobs.
        unsettled = "SELECT count(*) FROM news.ai_job WHERE status <> 'SUCCESS'"
        wait_for(lambda: connection.execute(unsettled).fetchone() == (0,), "the sensor had every job settled")
        done = "SELECT count(*) FROM news.article WHERE day = ANY(%s) AND completed_at IS NOT NULL"
        (completed,) = connection.execute(done, (BACKFILLED,)).fetchone() or (0,)
        assert completed > 300

    dev.send_signal(signal.SIGINT)
    assert dev.wait(timeout=60) == 0
    project.wait_until_nothing_runs()
