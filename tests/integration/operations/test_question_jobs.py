"""The questions of the person on call as jobs of the UI: what a run tells, and what it keeps quiet."""

from typing import Any

import dagster as dg
import pytest

from operations.jobs import operations_jobs
from orchestration.settings import Settings
from resources.mongo import MongoResource
from resources.postgres import PostgresResource

CANARY = "a private line 7431"
DAYS = {"first_day": "2026-01-05", "last_day": "2026-01-05"}


def asked(database_url: str, job: str, op: str, **config: Any) -> dg.ExecuteInProcessResult:
    (wanted,) = [one for one in operations_jobs(Settings()) if one.name == job]
    return wanted.execute_in_process(
        run_config={"ops": {op: {"config": config}}},
        resources={"postgres": PostgresResource(database_url=database_url), "mongo": MongoResource()},
        raise_on_error=False,
    )


@pytest.mark.parametrize(
    ("kind", "identifier"),
    [("article", "999999"), ("context", "9" * 5_000), ("member", CANARY), ("raw-file", "raw/\x00.json")],
)
def test_an_unknown_id_is_answered_with_what_was_looked_for(
    database_url: str, kind: str, identifier: str
) -> None:
    result = asked(database_url, "operations_why", "tell_why", kind=kind, id=identifier)
    assert result.success
    (output,) = [one for one in result.all_node_events if one.is_successful_output]
    told = output.step_output_data.metadata["why"].value
    assert f"no {kind} " in str(told)
    assert "looked for " in str(told)


@pytest.mark.parametrize(
    ("job", "op", "config", "allowed"),
    [
        ("operations_why", "tell_why", {"kind": CANARY, "id": CANARY}, "article, context, member"),
        ("operations_why", "tell_why", {"kind": "recipe", "id": CANARY}, "MONGODB_URI"),
        ("operations_quote", "tell_quote", {"pipeline": CANARY, **DAYS}, "one of economy_news"),
        ("operations_quote", "tell_quote", {"pipeline": "recipes", **DAYS, "last_day": CANARY}, "YYYY-MM-DD"),
        ("operations_quote", "tell_quote", {"pipeline": "raw_files", **DAYS, "parts": [CANARY]}, "kr/news"),
    ],
)
def test_a_failure_names_what_is_allowed_and_quotes_nothing(
    database_url: str, job: str, op: str, config: dict[str, Any], allowed: str
) -> None:
    result = asked(database_url, job, op, **config)
    assert not result.success
    (failed,) = [one for one in result.all_node_events if one.is_step_failure]
    told = failed.step_failure_data.user_failure_data
    assert told is not None
    assert allowed in str(told.description)
    assert CANARY not in str(failed)
