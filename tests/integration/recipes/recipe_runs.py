"""The pipeline's jobs and sensor as Dagster runs them in this process, against the test's services."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from local_stack.recipe_api.state import KEY as RECIPE_API_KEY
from orchestration.definitions import build_definitions
from orchestration.policies import LOCK_TAG
from orchestration.settings import Settings
from resources.batches import BatchResource
from resources.embeddings import EmbeddingResource
from resources.mongo import MongoResource
from resources.postgres import PostgresResource
from resources.pushgateway import PushgatewayResource
from resources.recipe_api import RecipeApiResource
from sensors.recipes import lock_of_day
from tests.integration.recipes.batch_runs import CHAT_MODEL, EMBEDDING_MODEL
from tests.integration.resources.asking import KEY
from tests.integration.stand_ins import StandIn

DAY = "2026-11-27"
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
MOST_RUNS = 20


@dataclass(frozen=True)
class Services:
    """Where everything is; the batches of `openai` end on command."""

    database_url: str
    mongo_uri: str
    mongo_database: str
    source: StandIn
    openai: StandIn


class RecipeRuns:
    """One code location with its own instance. `changes` replace resources by name."""

    def __init__(self, services: Services, pushgateway_url: str = "", **changes: Any) -> None:
        self.services = services
        self.instance = dg.DagsterInstance.ephemeral()
        self.resources = {
            "postgres": PostgresResource(database_url=services.database_url),
            "mongo": MongoResource(uri=services.mongo_uri, database=services.mongo_database),
            "recipe_api": RecipeApiResource(base_url=services.source.url, api_key=RECIPE_API_KEY),
            "parse_batches": BatchResource(model=CHAT_MODEL, **self.provider()),
            "embed_batches": BatchResource(model=EMBEDDING_MODEL, **self.provider()),
            "embeddings": EmbeddingResource(model=EMBEDDING_MODEL, **self.provider()),
            "pushgateway": PushgatewayResource(url=pushgateway_url),
            **changes,
        }
        self.defs = build_definitions(Settings(), self.resources)
        self._cursor: str | None = None

    def provider(self, api_key: str = KEY) -> dict[str, Any]:
        """What every resource for OpenAI is reached by."""
        return {"base_url": f"{self.services.openai.url}/v1", "api_key": api_key, "timeout_ms": 10_000}

    def run(
        self,
        job: str,
        config: dict[str, dict[str, Any]] | None = None,
        only: Sequence[str] = (),
        day: str = DAY,
        tags: Mapping[str, str] | None = None,
    ) -> dg.ExecuteInProcessResult:
        """A run of the job over the day, or of some of its assets. `config` by asset or op."""
        definition = self.defs.resolve_job_def(job)
        return definition.execute_in_process(
            instance=self.instance,
            partition_key=day if definition.partitions_def else None,
            asset_selection=[dg.AssetKey(name) for name in only] or None,
            tags=dict(tags or {}),
            run_config={**QUIET, "ops": {name: {"config": given} for name, given in (config or {}).items()}},
            raise_on_error=False,
        )

    def fetch(self, **config: Any) -> dg.ExecuteInProcessResult:
        """The first job, over some recipes."""
        return self.run("recipes_fetch", {"recipe_jobs": {"limit": 5, **config}})

    def tick(self) -> list[tuple[str, str]] | str:
        """The jobs and days that the sensor asks for, or why for none. Raises what the tick raises."""
        sensor = self.defs.get_repository_def().get_sensor_def("recipe_batches")
        made = dg.build_sensor_context(
            instance=self.instance,
            cursor=self._cursor,
            resources={**(self.defs.resources or {}), **self.resources},
        )
        with made as context:
            said = sensor(context)
            self._cursor = context.cursor
        if isinstance(said, dg.SkipReason):
            return str(said.skip_message)
        assert isinstance(said, dg.SensorResult)
        return [(str(one.job_name), str(one.partition_key)) for one in said.run_requests or []]

    def follow(self) -> list[tuple[str, bool]]:
        """Ends all batches and does what the sensor asks for, until it asks for nothing: jobs and success."""
        done: list[tuple[str, bool]] = []
        while len(done) < MOST_RUNS:
            self.services.openai.post("batches/advance")
            asked = self.tick()
            if isinstance(asked, str):
                return done
            tags = {LOCK_TAG: lock_of_day(DAY)}
            done += [(job, self.run(job, day=day, tags=tags).success) for job, day in asked]
        raise AssertionError(f"the sensor asks for ever more runs: {done}")

    def metadata(self, result: dg.ExecuteInProcessResult, asset: str) -> dict[str, Any]:
        """What the run's materialisation of the asset tells."""
        (event,) = result.asset_materializations_for_node(asset)
        return {name: entry.value for name, entry in event.metadata.items()}

    def end(self, run: dg.DagsterRun, status: dg.DagsterRunStatus) -> None:
        """Tells the run-status sensor that the run has ended so."""
        failed = status is dg.DagsterRunStatus.FAILURE
        kind = dg.DagsterEventType.RUN_FAILURE if failed else dg.DagsterEventType.RUN_CANCELED
        name = "failed_runs_free_their_work" if failed else "canceled_runs_free_their_work"
        context = dg.build_run_status_sensor_context(
            sensor_name=name,
            dagster_event=dg.DagsterEvent(kind.value, run.job_name),
            dagster_instance=self.instance,
            dagster_run=run,
            resources={**(self.defs.resources or {}), **self.resources},
        )
        sensor = self.defs.get_repository_def().get_sensor_def(name)
        assert isinstance(sensor, dg.RunStatusSensorDefinition)
        sensor(context.for_run_failure() if failed else context)

    def told(self) -> str:
        """Every event of every run: what the UI can show."""
        runs = self.instance.get_runs()
        return "\n".join(repr(entry) for run in runs for entry in self.instance.all_logs(run.run_id))
