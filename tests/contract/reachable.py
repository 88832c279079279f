"""Whether the services that are named are there, asked once before the suite starts."""

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from resources.batches import BatchResource
from resources.bucket import BucketResource
from resources.errors import ServiceError, ServiceNotConfigured, ServiceUnavailable
from resources.model_table import ModelPrice
from resources.mongo import MongoResource
from resources.postgres import PostgresResource
from tests.contract.named_services import NamedServices

_ADVICE = re.compile(r"[:;] (?:locally, )?start the local stack.*", re.DOTALL)
"""Granary's own, which is none for somebody who has named a service of his own."""


def prices(services: NamedServices) -> dict[str, Any]:
    """MODEL_PRICES. Raises ServiceNotConfigured where it is no JSON object."""
    try:
        found = json.loads(services.model_prices)
    except json.JSONDecodeError as error:
        raise ServiceNotConfigured(f"MODEL_PRICES is no JSON: {error.msg}") from None
    try:
        return {
            name: ModelPrice.model_validate(price).model_dump(mode="json") for name, price in found.items()
        }
    except (AttributeError, ValidationError):
        raise ServiceNotConfigured(
            'MODEL_PRICES must be such as {"my-model": {"input": 0.15, "cached": 0.075, "output": 0.60}}'
        ) from None


def wrong_with(services: NamedServices) -> list[str]:
    """A line for each that is named and cannot be asked, without its address; stand-ins are not looked at."""
    named: dict[str, tuple[object, Callable[[NamedServices], object]]] = {
        "DATABASE_URL": (services.database_url, _ask_postgres),
        "MONGODB_URI": (services.mongodb_uri, _ask_mongo),
        "S3_ENDPOINT_URL": (services.s3_endpoint_url, _ask_bucket),
        "OPENAI_BASE_URL, OPENAI_API_KEY": (services.openai_is_real, _ask_openai),
    }
    told: list[str] = []
    for name, (is_named, ask) in named.items():
        if is_named:
            with _telling(name, told):
                ask(services)
    return told


@contextmanager
def _telling(name: str, told: list[str]) -> Iterator[None]:
    try:
        yield
    except (ServiceError, ServiceNotConfigured, ServiceUnavailable) as error:
        told.append(f"contract: {name}: {_ADVICE.sub('', str(error))}")


def _ask_postgres(services: NamedServices) -> None:
    with PostgresResource(database_url=services.database_url).connect() as connection:
        found = connection.execute(
            "SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user"
        ).fetchone()
        if found != (True,):
            raise ServiceNotConfigured("its user may not create a database: ALTER ROLE … CREATEDB")


def _ask_mongo(services: NamedServices) -> None:
    with MongoResource(uri=services.mongodb_uri).connect() as db:
        db.command("ping")


def _ask_bucket(services: NamedServices) -> None:
    resource = BucketResource(endpoint_url=services.s3_endpoint_url, bucket=services.s3_bucket)
    with resource.open() as bucket:
        next(iter(bucket.objects("granary_contract_none/")), None)


def _ask_openai(services: NamedServices) -> None:
    """For its files, which costs nothing."""
    if not os.environ.get("OPENAI_API_KEY"):
        raise ServiceNotConfigured("OPENAI_API_KEY is not set; a server that wants none takes any")
    settings: dict[str, Any] = {"model_prices": prices(services), "timeout_ms": 20_000}
    resource = BatchResource(model=services.chat_model, base_url=services.openai_base_url, **settings)
    with resource.open() as api:
        api.files_named("granary contract: none", datetime.now(UTC))
