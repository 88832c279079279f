"""What the UI shows of each definition: somebody on call must find there what it is and whose it is."""

from collections.abc import Iterator, Mapping

import dagster as dg
import pytest
from dagster._config import ConfigType, Noneable
from dagster._core.remote_representation.external_data import RepositorySnap

from orchestration.asset_items import ITEMS
from orchestration.definitions import build_definitions
from orchestration.partitions import PIPELINES
from orchestration.settings import Settings

COUNT_NO_ITEMS = {"domain_metadata_refresh", "daily_raw_report"}
IMPLICIT_JOB = "__ASSET_JOB"


@pytest.fixture(scope="module")
def built() -> dg.Definitions:
    return build_definitions(Settings())


@pytest.fixture(scope="module")
def shown(built: dg.Definitions) -> RepositorySnap:
    return RepositorySnap.from_def(built.get_repository_def())


def names_without(described: Mapping[str, str | None]) -> list[str]:
    """Whose description is missing, or no more than its own name."""
    return [
        name
        for name, text in described.items()
        if not text or len(text) < 10 or text.strip(". ").replace(" ", "_").lower() == name
    ]


def fields_of(config: ConfigType | None, path: str) -> Iterator[tuple[str, str | None]]:
    """Every field that a person may fill in, with its description."""
    if isinstance(config, Noneable):
        config = config.inner_type
    fields: Mapping[str, dg.Field] = getattr(config, "fields", None) or {}
    for name, field in fields.items():
        yield f"{path}.{name}", field.description
        yield from fields_of(field.config_type, f"{path}.{name}")


def test_every_asset_says_what_it_is_whose_it_is_and_which_code_made_it(built: dg.Definitions) -> None:
    specs = list(built.resolve_all_asset_specs())
    assert len(specs) > 20
    for spec in specs:
        name = spec.key.to_user_string()
        assert not names_without({name: spec.description}), name
        assert spec.group_name in PIPELINES, name
        assert spec.tags["pipeline"] == spec.group_name, name
        assert spec.owners, name
        assert spec.kinds, name
        assert spec.code_version, name


def test_every_asset_that_counts_items_says_what_an_item_is(built: dg.Definitions) -> None:
    told = {spec.key.to_user_string(): spec.metadata.get("item") for spec in built.resolve_all_asset_specs()}
    assert {name: item for name, item in told.items() if item} == ITEMS
    assert set(told) - set(ITEMS) == COUNT_NO_ITEMS


def test_every_asset_check_is_described(built: dg.Definitions) -> None:
    graph = built.resolve_asset_graph()
    checks = {key.name: graph.get_check_spec(key).description for key in graph.asset_check_keys}
    assert len(checks) > 10
    assert names_without(checks) == []


def test_every_job_and_every_op_in_it_is_described(built: dg.Definitions) -> None:
    jobs = [job for job in built.get_repository_def().get_all_jobs() if job.name != IMPLICIT_JOB]
    assert len(jobs) > 20
    assert names_without({job.name: job.description for job in jobs}) == []
    ops = {op.name: op.description for job in jobs for op in job.graph.iterate_op_defs()}
    assert names_without(ops) == []


def test_every_schedule_and_sensor_is_described(shown: RepositorySnap) -> None:
    described = {one.name: one.description for one in shown.schedules}
    described |= {one.name: one.description for one in shown.sensors}
    assert len(described) > 20
    assert names_without(described) == []


def test_every_field_of_a_launchpad_is_described(built: dg.Definitions) -> None:
    fields: dict[str, str | None] = {}
    for job in built.get_repository_def().get_all_jobs():
        for op in job.graph.iterate_op_defs():
            fields.update(fields_of(op.config_schema.config_type, op.name))
    assert {"economy_articles.lists", "article_summaries.redo", "take_article_down.url"} <= set(fields)
    assert names_without(fields) == []


def test_every_resource_and_its_fields_are_described(shown: RepositorySnap) -> None:
    resources = [one for one in shown.resources or [] if one.name != "io_manager"]
    assert len(resources) > 10
    assert names_without({one.name: one.resource_snapshot.description for one in resources}) == []
    fields = {
        f"{one.name}.{field.name}": field.description for one in resources for field in one.config_field_snaps
    }
    assert names_without(fields) == []
