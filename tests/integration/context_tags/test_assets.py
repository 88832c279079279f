"""The assets in Dagster: what each materialisation tells, and what fails a run."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from assets.context_tags import inbox_run
from assets.context_tags.models import Outcome
from resources import gate
from tests.integration.context_tags.context_runs import (
    EMBEDDINGS,
    KEYWORDS,
    PRESETS_JOB,
    TAGS_JOB,
    Connect,
    ContextRuns,
    calls,
)
from tests.integration.context_tags.paid_runs import near_presets, post
from tests.integration.context_tags.scenes import Core
from tests.integration.context_tags.store_rows import all_rows
from tests.integration.job_runs import DAY, NOON, check, shut_gate, why
from tests.integration.stand_ins import StandIn

ONE_DAY = timedelta(days=1)
STAGES = (EMBEDDINGS, KEYWORDS)
DONE, PENDING = ("COMPLETED", "COMPLETED"), ("PENDING", "PENDING")
OF_THE_DAY = ("items_done", "items_waiting", "items_failed", "requests", "cancelled")


@pytest.fixture
def noon(connect: Connect) -> psycopg.Connection:
    """A connection whose clock stands at noon, as that of the runs."""
    return connect(at=NOON.isoformat())


@pytest.fixture
def runs(database_url: str, openai_api: StandIn) -> ContextRuns:
    return ContextRuns(database_url, openai_api)


@pytest.fixture
def api(core: Core, openai_api: StandIn) -> StandIn:
    """The stand-in, with three presets stored that lie at the texts of the tests."""
    near_presets(core, openai_api.url)
    openai_api.post("reset", ledger=True)
    return openai_api


def posted(core: Core, connection: psycopg.Connection, *ids: int) -> None:
    core.add(*ids)
    post(connection, *ids)


def test_what_waits_is_settled_and_both_assets_say_so(
    runs: ContextRuns, core: Core, noon: psycopg.Connection, api: StandIn
) -> None:
    posted(core, noon, 1, 2, 3)
    core.add(4)
    core.cancel(4)
    post(noon, 4)
    result = runs.tag()
    assert result.success
    assert core.states() == {1: DONE, 2: DONE, 3: DONE, 4: ("CANCELLED", "CANCELLED")}
    for asset in STAGES:
        assert runs.numbers(asset, *OF_THE_DAY) == [3, 0, 0, 4, 1]
    assert runs.numbers(EMBEDDINGS, "pass_embedded", "calls") == [3, 1]
    assert runs.numbers(KEYWORDS, "pass_tagged", "calls", "texts_kept") == [3, 3, 0]
    totals = api.get("ledger/totals")
    told = sum(runs.metadata(asset)["cost_usd"] for asset in STAGES)
    assert told == pytest.approx(totals["cost_usd"], abs=1e-6) and told > 0
    assert len(result.get_asset_materialization_events()) == 2
    for name in ("texts_are_forgotten", "contexts_did_not_fail"):
        assert check(result, name).passed, name


def test_a_text_without_a_keyword_near_it_is_settled_without_a_question_to_the_model(
    runs: ContextRuns, core: Core, noon: psycopg.Connection, openai_api: StandIn
) -> None:
    posted(core, noon, 1)  # the presets of `core` lie where no text does
    assert runs.tag().success
    assert (core.states(), core.keywords()) == ({1: DONE}, {1: {}})
    assert runs.numbers(KEYWORDS, "pass_tagged", "pass_without_keywords", "calls") == [1, 1, 0]


def test_a_span_of_two_days_is_one_run_that_tells_of_each(
    runs: ContextRuns, core: Core, connect: Connect, noon: psycopg.Connection, api: StandIn
) -> None:
    for days, ids in ((0, (1, 2)), (1, (3,)), (2, (4,))):
        posted(core, connect(at=(NOON - days * ONE_DAY).isoformat()), *ids)
    result = runs.tag(DAY - ONE_DAY, DAY)
    assert result.success and len(runs.instance.get_runs()) == 1
    assert len(result.get_asset_materialization_events()) == 4
    for asset in STAGES:
        assert [runs.metadata(asset, DAY - days * ONE_DAY)["items_done"] for days in (0, 1)] == [2, 1]
        with pytest.raises(KeyError):
            runs.metadata(asset, DAY - 2 * ONE_DAY)
    assert (core.state(3), core.state(4)) == (DONE, PENDING)


def test_a_day_on_which_nothing_waits_succeeds_with_nothing_done(
    runs: ContextRuns, core: Core, api: StandIn
) -> None:
    assert runs.tag().success
    for asset in STAGES:
        assert runs.numbers(asset, "requests", "calls", "cost_usd") == [0, 0, 0]


def test_contexts_that_fail_fail_no_run_and_the_check_says_how_many_and_why(
    runs: ContextRuns, core: Core, noon: psycopg.Connection, api: StandIn
) -> None:
    posted(core, noon, 1, 2, 3)
    api.fault(endpoint="chat/completions", content="refusal", times=2)
    result = runs.tag()
    assert result.success
    assert runs.numbers(KEYWORDS, "items_done", "items_failed", "pass_failed") == [1, 2, 2]
    found = check(result, "contexts_did_not_fail")
    assert not found.passed and found.metadata["reasons"].value == {"refused": 2}


def test_a_text_that_is_kept_too_long_fails_the_check(
    runs: ContextRuns, core: Core, connect: Connect, noon: psycopg.Connection, api: StandIn
) -> None:
    posted(core, noon, 1)
    posted(core, connect(at=(NOON - timedelta(hours=25)).isoformat()), 2)
    found = check(runs.tag(), "texts_are_forgotten")
    assert not found.passed and found.metadata["texts"].value == 1


# --- what fails a run ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["embeddings", "chat"])
def test_a_shut_gate_fails_the_run_at_once_and_nothing_is_started(
    model: str, runs: ContextRuns, core: Core, noon: psycopg.Connection, api: StandIn
) -> None:
    posted(core, noon, 1, 2)
    shut_gate(noon, runs.resources[model])
    told = why(runs.tag())
    assert told.startswith("the AI gate is shut (AUTH: status 401)")
    assert "resume_suspended" in told and "\n" not in told
    assert set(core.states().values()) == {PENDING}
    assert api.get("ledger/totals")["calls"] == 0
    with pytest.raises(KeyError):
        runs.metadata(EMBEDDINGS)


def test_a_probe_is_left_to_the_next_run_where_the_other_models_gate_is_shut(
    runs: ContextRuns, core: Core, noon: psycopg.Connection, api: StandIn
) -> None:
    posted(core, noon, 1)
    shut_gate(noon, runs.resources["embeddings"], "QUOTA", probe_is_due=True)
    shut_gate(noon, runs.resources["chat"])
    assert "AUTH" in why(runs.tag())
    standing = gate.read(noon, runs.resources["embeddings"].gate_key)
    assert standing is not None and standing.probe_is_due


@pytest.mark.parametrize("model", ["embeddings", "chat"])
def test_a_probe_that_is_answered_opens_the_gate_and_the_run_settles_everything(
    model: str, runs: ContextRuns, core: Core, noon: psycopg.Connection, api: StandIn
) -> None:
    posted(core, noon, 1, 2, 3)
    shut_gate(noon, runs.resources[model], probe_is_due=True)
    assert runs.tag().success
    assert set(core.states().values()) == {DONE}
    assert all_rows(noon, "granary.api_gate") == []
    assert core.rows("SELECT cause FROM granary.alert WHERE cleared_at IS NULL") == []


def test_a_probe_that_finds_nothing_to_ask_is_due_again_at_once(
    runs: ContextRuns, core: Core, noon: psycopg.Connection, api: StandIn
) -> None:
    shut_gate(noon, runs.resources["chat"], probe_is_due=True)
    assert runs.tag().success
    standing = gate.read(noon, runs.resources["chat"].gate_key)
    assert standing is not None and standing.probe_is_due


def test_a_refused_key_in_the_middle_fails_the_run_and_no_context_and_what_was_done_is_told(
    database_url: str, core: Core, noon: psycopg.Connection, api: StandIn
) -> None:
    runs = ContextRuns(database_url, api, ai_concurrency=1)
    posted(core, noon, *range(1, 7))
    api.fault(endpoint="chat/completions", status=401, code="invalid_api_key", skip=2)
    result = runs.tag()
    told = why(result)
    assert told.startswith("invalid_api_key: status 401: set a valid OPENAI_API_KEY") and "\n" not in told
    assert "FAILED" not in {status for state in core.states().values() for status in state}
    assert list(core.states().values()).count(DONE) == 2
    assert calls(api, "chat/completions") == 3
    assert runs.numbers(EMBEDDINGS, "items_done", "pass_embedded", "items_waiting") == [6, 6, 4]
    assert runs.numbers(KEYWORDS, "items_done", "pass_tagged", "items_waiting") == [2, 2, 4]
    alarms = core.rows("SELECT cause, message FROM granary.alert WHERE cleared_at IS NULL")
    assert [one["cause"] for one in alarms] == ["gate:gpt-4o-mini"]
    assert "resume_suspended" in alarms[0]["message"]
    assert "the AI gate is shut" in why(runs.tag()) and calls(api, "chat/completions") == 3


def test_a_run_that_started_and_settled_nothing_fails_at_its_end_and_is_told(
    runs: ContextRuns, core: Core, noon: psycopg.Connection, api: StandIn
) -> None:
    posted(core, noon, 1, 2)
    api.fault(endpoint="embeddings", status=503)
    told = why(runs.tag())
    assert told == "the run started 2 stages and settled none (server_error)"
    assert set(core.states().values()) == {("PROCESSING", "PENDING")}
    assert calls(api, "embeddings") == 3  # the attempts of one request
    assert runs.numbers(EMBEDDINGS, "items_done", "pass_put_off") == [0, 2]


def test_a_day_without_room_in_the_cap_fails_the_run_and_no_context(
    database_url: str, core: Core, noon: psycopg.Connection, api: StandIn
) -> None:
    runs = ContextRuns(database_url, api, daily_spending_cap_usd=0)
    posted(core, noon, 1)
    assert "cap" in why(runs.tag())
    assert "FAILED" not in core.state(1) and api.get("ledger/totals")["calls"] == 0
    assert "BUDGET" in why(runs.tag())


@pytest.mark.parametrize("waiting", [(1, 2), ()], ids=["some wait", "nothing waits"])
def test_without_keywords_a_run_fails_at_its_start_with_what_to_run_first(
    waiting: tuple[int, ...], runs: ContextRuns, core: Core, noon: psycopg.Connection, openai_api: StandIn
) -> None:
    noon.execute("DELETE FROM ai.keyword_preset")
    posted(core, noon, *waiting)
    shut_gate(noon, runs.resources["chat"], probe_is_due=True)
    told = why(runs.tag())
    assert PRESETS_JOB in told and "\n" not in told
    assert set(core.states().values()) <= {PENDING}
    assert openai_api.get("ledger/totals")["calls"] == 0
    standing = gate.read(noon, runs.resources["chat"].gate_key)
    assert standing is not None and standing.probe_is_due


@pytest.mark.parametrize("job", [PRESETS_JOB, TAGS_JOB])
def test_tables_that_lack_a_column_are_named_with_the_file_that_lists_them(
    job: str, runs: ContextRuns, core: Core, noon: psycopg.Connection, openai_api: StandIn
) -> None:
    posted(core, noon, 1)
    noon.execute("ALTER TABLE ai.context_embedding DROP COLUMN is_deleted")
    told = why(runs.run(job, *([DAY] if job == TAGS_JOB else [])))
    assert "ai.context_embedding.is_deleted: no such column" in told and "sql/grants.sql" in told
    assert core.states() == {1: PENDING}


# --- how long a run lingers ---------------------------------------------------------------------------------


def test_a_run_lingers_on_the_running_day_alone(
    database_url: str,
    core: Core,
    api: StandIn,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lingers: list[float] = []

    class Watched(inbox_run.InboxRun):
        def __init__(self, **given: Any) -> None:
            lingers.append(given["linger_seconds"])
            super().__init__(**given)

        def run(self) -> Outcome:
            return Outcome()

    monkeypatch.setattr(inbox_run, "InboxRun", Watched)
    runs = ContextRuns(database_url, api, context_linger_seconds=7)
    for days in ([DAY], [DAY - ONE_DAY, DAY], [DAY - ONE_DAY]):  # DAY is today by the runs' clock
        assert runs.tag(*days).success
    assert lingers == [7, 7, 0]
