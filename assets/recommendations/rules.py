"""What an operator sets for this pipeline, handed to its assets; filled from the environment by
`orchestration/definitions.py`. The defaults are those of the service before."""

from decimal import Decimal

import dagster as dg
from pydantic import Field

from resources.embedding_profile import DEFAULT_PROFILE


class RecommendationRules(dg.ConfigurableResource):
    """How triggers and queue items are taken, and what is recommended."""

    profile: str = Field(default=DEFAULT_PROFILE, description="The vector space of products.")
    trigger_limit: int = Field(default=100, description="Triggers of one short transaction.")
    trigger_lease_seconds: int = Field(
        default=300, description="After these a trigger that a run took and did not queue is due again."
    )
    visit_session_minutes: float = Field(default=60, description="A visit within these moves nothing.")
    pick_limit: int = Field(default=10, description="Queue items picked at once.")
    concurrency: int = Field(default=5, description="Members ranked at once.")
    size: int = Field(default=20, description="Products recommended to a member.")
    gate_probe_minutes: int = Field(
        default=30, description="Between two tries whether a shut gate can be opened."
    )
    daily_spending_cap_usd: str = Field(default="5", description="USD per day in Seoul; empty: no cap.")

    @property
    def cap_usd(self) -> Decimal | None:
        return Decimal(self.daily_spending_cap_usd) if self.daily_spending_cap_usd else None
