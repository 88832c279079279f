"""What an operator sets for this pipeline, handed to its assets; filled from the environment by
`orchestration/definitions.py`."""

from decimal import Decimal
from pathlib import Path

import dagster as dg
from pydantic import Field

from assets.context_tags.models import DEFAULT_PROFILE, ContextSettings
from assets.context_tags.preset_file import OWN_FILE
from resources.errors import ServiceNotConfigured


class ContextRules(dg.ConfigurableResource):
    """How contexts are claimed, compared, judged and paid."""

    profile: str = Field(default=DEFAULT_PROFILE, description="The vector space of contexts and keywords.")
    processing_expiry_seconds: float = Field(
        default=600, description="After these a stage left PROCESSING is taken again."
    )
    linger_seconds: float = Field(default=20, description="How long a run waits for more before it ends.")
    most_candidates: int = Field(default=10, description="Nearest keywords that the model is asked about.")
    candidate_floor: float = Field(default=0.30, description="Cosine similarity of the last candidate.")
    concurrency: int = Field(default=16, description="Model calls under way at once in a run.")
    own_state: bool = Field(default=False, description="We keep ai.context_ai_state, not an application.")
    presets_file: str = Field(default="", description="Empty: the keywords shipped with the pipeline.")
    gate_probe_minutes: int = Field(
        default=30, description="Between two tries whether a shut gate can be opened."
    )
    daily_spending_cap_usd: str = Field(default="5", description="USD per day in Seoul; empty: no cap.")

    @property
    def cap_usd(self) -> Decimal | None:
        return Decimal(self.daily_spending_cap_usd) if self.daily_spending_cap_usd else None

    @property
    def processing(self) -> ContextSettings:
        return ContextSettings(
            profile=self.profile,
            most_candidates=self.most_candidates,
            candidate_floor=self.candidate_floor,
            processing_expiry_seconds=self.processing_expiry_seconds,
            concurrency=self.concurrency,
        )

    def presets_text(self) -> str:
        """The preset file as it stands now. Raises ServiceNotConfigured where it cannot be read."""
        try:
            return Path(self.presets_file or OWN_FILE).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ServiceNotConfigured(
                f"CONTEXT_PRESETS_FILE cannot be read ({type(error).__name__}): name a YAML file in UTF-8, "
                "or empty it for the keywords shipped with the pipeline"
            ) from None
