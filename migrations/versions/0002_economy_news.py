"""Applies 0002_economy_news.sql."""

from migrations.plain_sql import run_beside

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_beside(__file__)
