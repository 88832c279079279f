"""Applies 0007_operations.sql."""

from migrations.plain_sql import run_beside

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    run_beside(__file__)
