"""What an operator sets for this pipeline, handed to its assets; filled from the environment by
`orchestration/definitions.py`."""

import dagster as dg
from pydantic import Field


class RawFilesRules(dg.ConfigurableResource):
    """How far passes look back, and what is fetched of domains."""

    catch_up_days: int = Field(default=7, description="Days before yesterday that a pass looks at too.")
    metadata_ttl_days: int = Field(default=7, description="Front pages older than this are fetched again.")
    fetch_metadata: bool = Field(default=True, description="Off: no front page is fetched.")
    environment: str = Field(default="development", description="Stands in raw.failure_log.")
