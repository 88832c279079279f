"""Applies 0001_granary.sql."""

from migrations.plain_sql import run_beside

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_beside(__file__)
