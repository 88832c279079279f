"""Which services the suite asks: those that `make contract` was given an address for, else stand-ins."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from local_stack.environment import is_ours
from local_stack.processes import PROJECT

SWITCH: Final = "CONTRACT_REAL"
CHAT_MODEL: Final = "gpt-4o-mini"
EMBEDDING_MODEL: Final = "text-embedding-3-small"


@dataclass(frozen=True)
class NamedServices:
    """The addresses that count; empty: a stand-in. None is shown: they may hold passwords.

    `openai_is_real` where an address or a key is given; an empty address is OpenAI's own.
    """

    mongodb_uri: str = field(default="", repr=False)
    database_url: str = field(default="", repr=False)
    s3_endpoint_url: str = field(default="", repr=False)
    s3_bucket: str = "granary"
    openai_is_real: bool = False
    openai_base_url: str = field(default="", repr=False)
    chat_model: str = CHAT_MODEL
    embedding_model: str = EMBEDDING_MODEL
    model_prices: str = "{}"
    wait_for_batches: bool = True

    def announcement(self) -> list[str]:
        """What will be asked and left behind, a line for each service, before anything is. No address."""
        cost = "with the default models for less than 1 US cent"
        batches = "batches awaited, up to a day" if self.wait_for_batches else "no batch awaited"
        named = {
            "DATABASE_URL": (self.database_url, "in a database of its own, dropped at the end"),
            "MONGODB_URI": (self.mongodb_uri, "in a database of its own, dropped at the end"),
            "S3_ENDPOINT_URL": (
                self.s3_endpoint_url,
                f"in {self.s3_bucket}, under a prefix emptied at the end",
            ),
            "OPENAI_BASE_URL, OPENAI_API_KEY": (self.openai_is_real, f"{cost}; {batches}"),
        }
        return [
            f"contract: {name}: {f'the real one, {how}' if is_named else 'not named, so a stand-in'}"
            for name, (is_named, how) in named.items()
        ]


def services_named_in(environment: Mapping[str, str]) -> NamedServices:
    """The services of an environment, all of them stand-ins without the switch, whatever it names.

    Whoever has real addresses loaded in his shell must not have `make test` write there. What `.local/env`
    has loaded is not named: it is what stands in.
    """
    if environment.get(SWITCH) != "true":
        return NamedServices()

    def named(name: str) -> str:
        is_given_out = is_ours(name, environment, {}, PROJECT / ".local")
        return "" if is_given_out else environment.get(name, "").strip()

    openai_is_real = bool(named("OPENAI_BASE_URL") or named("OPENAI_API_KEY"))
    return NamedServices(
        mongodb_uri=named("MONGODB_URI"),
        database_url=named("DATABASE_URL"),
        s3_endpoint_url=named("S3_ENDPOINT_URL"),
        s3_bucket=named("S3_BUCKET") or "granary",
        openai_is_real=openai_is_real,
        openai_base_url=named("OPENAI_BASE_URL"),
        chat_model=(openai_is_real and named("OPENAI_MODEL")) or CHAT_MODEL,
        embedding_model=(openai_is_real and named("OPENAI_EMBEDDING_MODEL")) or EMBEDDING_MODEL,
        model_prices=named("MODEL_PRICES") or "{}",
        wait_for_batches=not openai_is_real or named("CONTRACT_BATCHES") == "true",
    )


SERVICES: Final = services_named_in(os.environ)
