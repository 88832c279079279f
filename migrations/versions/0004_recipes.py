"""Applies 0004_recipes.sql."""

from migrations.plain_sql import run_beside

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    run_beside(__file__)
