"""Applies 0006_recommendations.sql."""

from migrations.plain_sql import run_beside

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    run_beside(__file__)
