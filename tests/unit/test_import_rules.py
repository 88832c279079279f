"""Who may import whom (ARCHITECTURE.md). A new module that fits no row fails here until it has one."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.project_modules import PRODUCTION, ROOT, modules, relative

OURS = (*PRODUCTION, "migrations", "local_stack", "benchmarks", "tests")
PIPELINES = sorted(folder.name for folder in (ROOT / "assets").iterdir() if (folder / "assets.py").exists())

LEAVES = {"orchestration.partitions", "orchestration.policies", "orchestration.failures"}
DAGSTER_FACING = {
    "assets.py",
    "checks.py",
    "partition_metadata.py",
    "repair.py",
    "rules.py",
    "schedule_state.py",
}
STORES = {"job_report.py", "unstorable.py"} | {path.name for path in (ROOT / "assets").rglob("*store.py")}
# Carry out a run with the resources that they are handed; usable without Dagster.
WORK = {
    "context_tags": {
        "asking.py",
        "embedding_stage.py",
        "inbox_run.py",
        "keyword_stage.py",
        "paid_calls.py",
        "preset_loading.py",
        "process.py",
        "search.py",
        "stage_rows.py",
    },
    "economy_news": {
        "article_source.py",
        "article_storing.py",
        "batch_line_verdicts.py",
        "batch_room.py",
        "batch_run.py",
        "batch_sending.py",
        "batch_step.py",
        "batch_taking_in.py",
        "crawl.py",
        "crawl_run.py",
        "enrichment.py",
        "result_writing.py",
        "resuming.py",
        "settlement.py",
    },
    "raw_files": {
        "alarm_messages.py",
        "attempts.py",
        "file_processing.py",
        "front_page_fetching.py",
        "listing.py",
        "passes.py",
        "scan.py",
    },
    "recipes": {
        "batch_ending.py",
        "batch_intents.py",
        "batch_kinds.py",
        "batch_retrieval.py",
        "batch_room.py",
        "batch_submission.py",
        "embed_batches.py",
        "embedding_calls.py",
        "fetch.py",
        "ingredient_linking.py",
        "parse_batches.py",
        "persist.py",
        "stage_metrics.py",
    },
    "recommendations": {"product_embedding.py", "recommend.py", "trigger_check.py"},
}
# What becomes of a failed attempt is told by the run and by the sensor that hears of its death.
TOLD_BY_RUN_STATUS = {"assets.raw_files.attempts"}
OPERATIONS_FACING_DAGSTER = {"jobs.py", "instance_facts.py", "run_purge.py"}
# A search answers at once; what a posted text may be is a rule of its pipeline.
ASKED_BY_THE_DOOR = ("request_text.py", "search.py", "resuming.py")


def imported(path: Path) -> Iterator[str]:
    """Every module that the file names in an import, at its top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            yield from (f"{module}.{alias.name}" for alias in node.names)


def of_ours(path: Path) -> set[str]:
    return {name for name in imported(path) if name.split(".")[0] in OURS}


def refused(path: Path, *allowed: str) -> set[str]:
    """Imports of ours that start with none of the allowed prefixes."""
    prefixes = tuple(allowed)
    return {
        name
        for name in of_ours(path)
        if not any(name == one or name.startswith(f"{one}.") for one in prefixes)
    }


@pytest.mark.parametrize("path", modules("assets"), ids=relative)
def test_a_pipelines_module_imports_what_its_kind_may(path: Path) -> None:
    if path.name == "__init__.py":
        assert path.read_text() == ""
        return
    pipeline = path.relative_to(ROOT / "assets").parts[0]
    own = f"assets.{pipeline}"
    if path.name in DAGSTER_FACING:
        assert not refused(path, own, "resources", *LEAVES)
    elif path.name in STORES:
        assert not refused(path, own, "resources.errors", "resources.named_sql", "resources.item_history")
        assert "psycopg.connect" not in path.read_text()
    elif path.name in WORK.get(pipeline, set()):
        assert not refused(path, own, "resources")
        assert "dagster" not in {name.split(".")[0] for name in imported(path)}
    else:
        assert not refused(path, own)
        not_pure = {"dagster", "psycopg", "httpx", "openai", "pymongo", "boto3"}
        assert not not_pure & {name.split(".")[0] for name in imported(path)}


@pytest.mark.parametrize("path", modules("assets"), ids=relative)
def test_a_pure_module_imports_no_store_and_no_work(path: Path) -> None:
    pipeline = path.relative_to(ROOT / "assets").parts[0]
    impure = DAGSTER_FACING | STORES | WORK.get(pipeline, set())
    if path.name in impure or path.name == "__init__.py":
        return
    names = {name.removesuffix(".py") for name in impure}
    assert not {name for name in of_ours(path) if set(name.split(".")[2:]) & names}


@pytest.mark.parametrize("path", modules("resources"), ids=relative)
def test_a_resource_knows_none_of_our_other_folders(path: Path) -> None:
    assert not refused(path, "resources")


@pytest.mark.parametrize("path", modules("sensors"), ids=relative)
def test_a_sensor_imports_its_own_pipeline_resources_and_leaves(path: Path) -> None:
    if path.stem in PIPELINES:
        assert not refused(path, f"assets.{path.stem}", "resources", "sensors", *LEAVES)
    else:
        stores = tuple(
            f"assets.{pipeline}.{name.removesuffix('.py')}" for pipeline in PIPELINES for name in STORES
        )
        watching = ("operations",) if path.stem == "alerts" else ()
        assert not refused(path, "resources", "sensors", *stores, *TOLD_BY_RUN_STATUS, *LEAVES, *watching)


@pytest.mark.parametrize("path", modules("api"), ids=relative)
def test_the_http_door_imports_models_stores_resources_and_settings(path: Path) -> None:
    stores = tuple(
        f"assets.{pipeline}.{name.removesuffix('.py')}"
        for pipeline in PIPELINES
        for name in (*STORES, *ASKED_BY_THE_DOOR, "models.py")
    )
    assert not refused(path, "api", "operations", "resources", "orchestration.settings", *stores)


@pytest.mark.parametrize("path", modules("operations"), ids=relative)
def test_operations_ask_any_pipeline_and_none_of_what_runs_them(path: Path) -> None:
    facing_dagster = ("assets.py", "checks.py", "repair.py")
    assert not refused(
        path, "operations", "assets", "resources", "orchestration.settings", "sensors.live_runs", *LEAVES
    )
    assert not {name for name in of_ours(path) if f"{name.rsplit('.', 1)[-1]}.py" in facing_dagster}
    if path.name not in OPERATIONS_FACING_DAGSTER:
        assert "dagster" not in {name.split(".")[0] for name in imported(path)}


def test_only_tests_import_the_http_door() -> None:
    for folder in OURS[:4]:
        for path in modules(folder):
            assert not {name for name in of_ours(path) if name.split(".")[0] == "api"}, relative(path)


@pytest.mark.parametrize("leaf", sorted(LEAVES))
def test_a_leaf_imports_no_folder_of_ours_but_resources(leaf: str) -> None:
    assert not refused(ROOT / (leaf.replace(".", "/") + ".py"), "resources")


def test_only_what_runs_them_and_tests_import_the_definitions() -> None:
    importers = {
        relative(path)
        for folder in OURS
        if folder != "tests" and (ROOT / folder).exists()
        for path in modules(folder)
        if any(name.startswith("orchestration.definitions") for name in imported(path))
    }
    assert importers == {"local_stack/demo_runs.py", "orchestration/run_launchers/celery_worker.py"}


def test_only_the_local_stack_and_tests_import_the_local_stack() -> None:
    for folder in OURS[:7]:
        if (ROOT / folder).exists():
            for path in modules(folder):
                assert not {name for name in of_ours(path) if name.startswith("local_stack")}, relative(path)


def test_every_package_is_listed_and_its_init_is_empty() -> None:
    import tomllib

    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {
        relative(path.parent).replace("/", ".")
        for folder in OURS
        if folder != "tests" and (ROOT / folder).exists()
        for path in modules(folder)
        if path.name == "__init__.py"
    }
    assert listed == found
    assert all(
        path.read_text() == ""
        for folder in OURS[:8]
        for path in modules(folder)
        if path.name == "__init__.py"
    )
