"""Applies 0008_text_of_jobs.sql."""

from migrations.plain_sql import run_beside

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    run_beside(__file__)
