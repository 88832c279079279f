"""The pipeline's jobs run by Dagster in this process, against the test's database and bucket."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import dagster as dg

from orchestration.definitions import build_definitions
from orchestration.partitions import raw_key
from orchestration.settings import Settings
from resources.bucket import BucketResource
from resources.postgres import PostgresResource
from sensors.raw_files import add_sources

DAY = date(2026, 11, 29)
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def raw_path(number: int = 1, source: str = "kr/news", day: date = DAY) -> str:
    country, category = source.split("/")
    return f"raw/country={country}/category={category}/date={day.isoformat()}/raw_{number:04}.json"


def document(*domains: str) -> bytes:
    return json.dumps({"country": "kr", "category": "news", "items": list(domains)}).encode()


@dataclass
class Store:
    """A bucket of the test."""

    url: str
    name: str
    client: Any

    def put(self, key: str, body: bytes = b"") -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=body)

    def keys(self, prefix: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return [found["Key"] for page in pages for found in page.get("Contents", [])]

    def read(self, key: str) -> bytes:
        body: bytes = self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return body


class RawRuns:
    """One code location with its own instance."""

    def __init__(self, database_url: str, store: Store, sites: str = "", bucket_url: str = "") -> None:
        self.store = store
        self.instance = dg.DagsterInstance.ephemeral()
        self.bucket = BucketResource(
            endpoint_url=bucket_url or store.url, bucket=store.name, timeout_seconds=2
        )
        self.defs = build_definitions(
            Settings(local_test_sites=sites, s3_bucket=store.name, granary_environment="tests"),
            {"postgres": PostgresResource(database_url=database_url), "bucket": self.bucket},
        )

    def run(
        self,
        day: date = DAY,
        source: str = "kr/news",
        force: bool = False,
        assets: Sequence[str] = (),
        **tags: str,
    ) -> dg.ExecuteInProcessResult:
        """A run over one partition, of all its assets or these alone."""
        add_sources(self.instance, [(day, source)])
        config = {} if assets else {"ops": {"raw_file_manifest": {"config": {"force": force}}}}
        return self.defs.resolve_job_def("raw_files_partitions").execute_in_process(
            instance=self.instance,
            partition_key=raw_key(day, source),
            asset_selection=[dg.AssetKey(name) for name in assets] or None,
            run_config={**QUIET, **config},
            tags=tags,
            raise_on_error=False,
        )

    def report(self, day: date = DAY) -> dg.ExecuteInProcessResult:
        return self.defs.resolve_job_def("raw_files_report").execute_in_process(
            instance=self.instance, partition_key=day.isoformat(), run_config=QUIET, raise_on_error=False
        )

    def job(self, name: str) -> dg.ExecuteInProcessResult:
        return self.defs.resolve_job_def(name).execute_in_process(
            instance=self.instance, run_config=QUIET, raise_on_error=False
        )

    @staticmethod
    def metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, Any]:
        """What the run's materialisation of the asset tells."""
        (event,) = result.asset_materializations_for_node(asset)
        return {name: entry.value for name, entry in event.metadata.items()}

    def checks(self, result: dg.ExecuteInProcessResult) -> dict[str, bool]:
        """What the run's checks said, also those of a step that failed."""
        entries = self.instance.all_logs(result.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
        found = [entry.get_dagster_event().asset_check_evaluation_data for entry in entries]
        return {one.check_name: one.passed for one in found}
