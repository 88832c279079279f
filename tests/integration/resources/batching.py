"""Batches as the tests ask for them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from io import BytesIO
from typing import Any, Final

from resources.batches import BatchApi, BatchResource
from tests.integration.resources.asking import KEY, SCHEMA
from tests.integration.stand_ins import StandIn

CHAT: Final = "/v1/chat/completions"
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def batches_at(url: str, **changes: Any) -> BatchResource:
    return BatchResource(
        **{"model": "gpt-4o-mini", "base_url": url, "api_key": KEY, "timeout_ms": 10_000, **changes}
    )


@contextmanager
def fresh_batches(openai_api: StandIn, **changes: Any) -> Iterator[BatchApi]:
    """The batch API of the stand-in, which has no batch yet, and where one ends only on command."""
    openai_api.post("reset", ledger=True, batches=True)
    openai_api.post("batches/pace")
    try:
        with batches_at(f"{openai_api.url}/v1", **changes).open() as api:
            yield api
    finally:
        # Otherwise the next reset would let them go on, into the ledger of another test.
        openai_api.post("reset", batches=True)


def late_upload(openai_api: StandIn, name: str) -> None:
    """A file as an upload leaves it that was given up and carried out all the same."""
    with batches_at(f"{openai_api.url}/v1").open() as api:
        api.upload(input_file("글"), name)


def input_file(*texts: str) -> BytesIO:
    body = {
        "model": "gpt-4o-mini",
        "response_format": {"type": "json_schema", "json_schema": {"name": "note", "schema": SCHEMA.schema}},
    }
    lines = [
        {
            "custom_id": f"job-{number}",
            "method": "POST",
            "url": CHAT,
            "body": {**body, "messages": [{"role": "user", "content": text}]},
        }
        for number, text in enumerate(texts)
    ]
    return BytesIO(b"".join(json.dumps(line).encode() + b"\n" for line in lines))


def created(api: BatchApi, *texts: str, intent: str = "7") -> str:
    file_id = api.upload(input_file(*(texts or ("두부",))), f"recipes-{intent}.jsonl")
    return api.create(file_id, CHAT, {"intent": intent}).id


def calls_of(openai_api: StandIn, endpoint: str) -> list[int]:
    """The statuses of the calls to an endpoint."""
    return [one["status"] for one in openai_api.get("ledger")["entries"] if one["endpoint"] == endpoint]
