"""What an operator sets for this pipeline, handed to its assets; filled from the environment by
`orchestration/definitions.py`."""

from decimal import Decimal

import dagster as dg
from pydantic import Field

STOPPED_TAG = "granary/stopped_by"
"""On a run that could not go on, for another reason than the gate: the sensor lets its day rest a while."""


class RecipeRules(dg.ConfigurableResource):
    """How much is fetched, and what batches may hold and cost."""

    fetch_limit: int = Field(default=100, description="Recipes that one day's fetch asks for.")
    max_enqueued_tokens: int = Field(
        default=2_000_000, description="Tokens that may wait in batches at once."
    )
    gate_probe_minutes: int = Field(
        default=30, description="Between two tries whether a shut gate can be opened."
    )
    daily_spending_cap_usd: str = Field(default="5", description="USD per day in Seoul; empty: no cap.")

    @property
    def cap_usd(self) -> Decimal | None:
        return Decimal(self.daily_spending_cap_usd) if self.daily_spending_cap_usd else None
