"""The pipeline's jobs run by Dagster in this process, against the test's database and stand-ins."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import dagster as dg

from orchestration.definitions import build_definitions
from orchestration.partitions import SECTIONS, news_key, news_range_tags
from orchestration.settings import Settings
from resources.chat import ChatResource
from resources.postgres import PostgresResource
from tests.integration.stand_ins import StandIn

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


class DagsterRuns:
    """One code location with its own instance."""

    def __init__(self, database_url: str, site: StandIn, api: StandIn, **settings: Any) -> None:
        quick = {"crawl_min_interval_ms": 0, "crawl_sleep_min_ms": 0, "crawl_sleep_max_ms": 0}
        self.settings = Settings(naver_base_url=site.url, **{**quick, **settings})
        self._database_url = database_url
        self.instance = dg.DagsterInstance.ephemeral()
        self.defs = self.definitions(
            ChatResource(model="gpt-4o-mini", base_url=f"{api.url}/v1", api_key="sk-tests")
        )

    def definitions(self, chat: ChatResource) -> dg.Definitions:
        """The code location with this model client."""
        postgres = PostgresResource(database_url=self._database_url)
        return build_definitions(self.settings, {"postgres": postgres, "chat": chat})

    def run(
        self,
        job: str,
        day: date | None = None,
        sections: Sequence[str] = SECTIONS,
        ops: dict[str, Any] | None = None,
    ) -> dg.ExecuteInProcessResult:
        """A run of the job, over the day's span of sections where it has partitions."""
        config = {name: {"config": values} for name, values in (ops or {}).items()}
        return self.defs.resolve_job_def(job).execute_in_process(
            instance=self.instance,
            tags=news_range_tags(day, sections) if day else None,
            run_config={**QUIET, "ops": config},
            raise_on_error=False,
        )

    def metadata(self, asset: str, day: date, section: str) -> dict[str, Any]:
        """The metadata of the partition's latest materialisation; KeyError where there is none."""
        records = self.instance.fetch_materializations(
            dg.AssetRecordsFilter(dg.AssetKey(asset), asset_partitions=[news_key(day, section)]), limit=1
        ).records
        if not records or records[0].asset_materialization is None:
            raise KeyError(f"{asset} {section} was not materialised")
        return {name: entry.value for name, entry in records[0].asset_materialization.metadata.items()}

    @staticmethod
    def check(result: dg.ExecuteInProcessResult, name: str) -> dg.AssetCheckEvaluation:
        """The run's evaluation of a check."""
        (found,) = [one for one in result.get_asset_check_evaluations() if one.check_name == name]
        return found
