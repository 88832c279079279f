"""The keywords in Dagster: what a run loads, which files are refused, and what starts a run."""

from pathlib import Path

import psycopg
import pytest

from resources import gate
from tests.integration.context_tags.context_runs import PRESETS_JOB, Connect, ContextRuns, calls, presets
from tests.integration.job_runs import NOON, only, shut_gate, why
from tests.integration.stand_ins import StandIn

ASSET, SENSOR = "keyword_presets", "preset_file_changed"
COFFEE = (
    "{id: 201, code: COFFEE, display_name: 커피, category: ACTIVITY, description: 커피, examples: [찻집]}"
)
WALK = "{id: 202, code: WALK, display_name: 산책, category: ACTIVITY, description: 산책, examples: [공원]}"


@pytest.fixture
def noon(connect: Connect) -> psycopg.Connection:
    """A connection whose clock stands at noon, as that of the runs."""
    return connect(at=NOON.isoformat())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A preset file with two keywords."""
    path = tmp_path / "own.yaml"
    write(path, COFFEE, WALK)
    return path


@pytest.fixture
def runs(file: Path, database_url: str, openai_api: StandIn) -> ContextRuns:
    """Runs and ticks that read the file as it stands then."""
    return ContextRuns(database_url, openai_api, context_presets_file=str(file))


def write(path: Path, *keywords: str, version: int = 1) -> None:
    lines = [f"version: {version}", "presets:", *(f"  - {one}" for one in keywords)]
    path.write_text("\n".join(lines), encoding="utf-8")


def changes(runs: ContextRuns) -> dict[str, int]:
    """What the last run says that it changed."""
    told = runs.metadata(ASSET, day=None)
    return {name: told[f"pass_{name}"] for name in ("added", "changed", "deactivated", "embedded")}


def test_the_shipped_keywords_are_loaded_and_a_second_run_embeds_nothing(
    database_url: str, noon: psycopg.Connection, openai_api: StandIn
) -> None:
    runs = ContextRuns(database_url, openai_api)
    assert runs.load().success
    assert changes(runs) == {"added": 27, "changed": 0, "deactivated": 0, "embedded": 27}
    assert runs.numbers(ASSET, "items_done", "version", day=None) == [27, 1]
    first = presets(noon)
    assert len(first) == 27
    assert runs.load().success
    assert changes(runs) == {"added": 0, "changed": 0, "deactivated": 0, "embedded": 0}
    assert runs.numbers(ASSET, "items_done", day=None) == [27]
    assert presets(noon) == first and calls(openai_api, "embeddings") == 1


def test_a_new_name_embeds_nothing_and_a_dropped_keyword_becomes_inactive(
    runs: ContextRuns, file: Path, openai_api: StandIn
) -> None:
    assert runs.load().success
    write(file, COFFEE.replace("display_name: 커피", "display_name: 한 잔"), version=2)
    assert runs.load().success
    assert changes(runs) == {"added": 0, "changed": 1, "deactivated": 1, "embedded": 0}
    assert runs.numbers(ASSET, "items_done", "version", day=None) == [1, 2]
    assert calls(openai_api, "embeddings") == 1


# --- what changes nothing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ([], "give a list of at least one preset"),
        ([COFFEE, WALK.replace("202", "201")], "201 is preset 1 already"),
        ([COFFEE, WALK.replace("202", "301")], "ACTIVITY takes 200 to 299"),
        ([COFFEE, WALK.replace("202", "203")], "preset 203: its code WALK is that of preset 202"),
    ],
    ids=["empty", "an id twice", "an id of another category", "the code of a keyword that it drops"],
)
def test_a_refused_file_fails_the_run_with_one_line_and_changes_nothing(
    keywords: list[str],
    said: str,
    runs: ContextRuns,
    file: Path,
    noon: psycopg.Connection,
    openai_api: StandIn,
) -> None:
    assert runs.load().success
    before = presets(noon)
    write(file, *keywords, version=2)
    told = why(runs.load())
    assert told.startswith("the preset file is refused, nothing was changed: ")
    assert said in told and "\n" not in told
    assert presets(noon) == before and calls(openai_api, "embeddings") == 1


@pytest.mark.parametrize("content", [b"\xff\xfe", None], ids=["not UTF-8", "no file"])
def test_a_file_that_cannot_be_read_is_told_with_its_setting(
    content: bytes | None, runs: ContextRuns, file: Path, noon: psycopg.Connection
) -> None:
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    told = why(runs.load())
    assert told.startswith("CONTEXT_PRESETS_FILE cannot be read (") and "\n" not in told
    assert presets(noon) == []


def test_keywords_that_cannot_be_embedded_change_nothing_and_shut_the_gate(
    runs: ContextRuns, noon: psycopg.Connection, openai_api: StandIn
) -> None:
    openai_api.fault(endpoint="embeddings", status=401, code="invalid_api_key")
    assert "invalid_api_key: status 401" in why(runs.load())
    assert presets(noon) == []
    shut = gate.read(noon, runs.resources["embeddings"].gate_key)
    assert shut is not None and shut.reason == "AUTH"
    assert "gate is shut (AUTH" in why(runs.load())
    assert calls(openai_api, "embeddings") == 1


# --- what starts a run --------------------------------------------------------------------------------------


def test_a_file_that_says_something_else_than_what_is_stored_starts_one_run(
    runs: ContextRuns, file: Path
) -> None:
    asked = only(runs.sensor(SENSOR))
    assert asked.tags == {"lock": PRESETS_JOB, "dagster/max_retries": "0"}
    assert runs.load().success
    assert runs.sensor(SENSOR) == "the stored keywords are those of the file"
    write(file, COFFEE, version=2)
    assert only(runs.sensor(SENSOR)).run_key != asked.run_key


def test_another_profile_starts_a_run_that_embeds_all_again(
    runs: ContextRuns, file: Path, database_url: str, openai_api: StandIn
) -> None:
    assert runs.load().success
    profile = "openai-text-embedding-3-small-1536-cosine-v2"
    other = ContextRuns(database_url, openai_api, context_presets_file=str(file), embedding_profile=profile)
    assert only(other.sensor(SENSOR))
    assert other.load().success
    assert changes(other)["embedded"] == 2
    assert other.sensor(SENSOR) == "the stored keywords are those of the file"


def test_a_refused_file_starts_no_run_and_the_tick_says_why(runs: ContextRuns, file: Path) -> None:
    file.write_text("", encoding="utf-8")
    assert "refused: preset file, top: is empty" in str(runs.sensor(SENSOR))


def test_keywords_that_a_run_loads_already_start_no_other(runs: ContextRuns) -> None:
    runs.live_run(PRESETS_JOB, PRESETS_JOB)
    assert runs.sensor(SENSOR) == "a run loads them already"


def test_keywords_wait_for_the_gate_of_the_embedding_model_alone(
    runs: ContextRuns, noon: psycopg.Connection
) -> None:
    shut_gate(noon, runs.resources["chat"])
    assert only(runs.sensor(SENSOR))
    shut_gate(noon, runs.resources["embeddings"], "QUOTA")
    assert "the AI gate is shut (QUOTA" in str(runs.sensor(SENSOR))
