"""Applies 0003_raw_files.sql."""

from migrations.plain_sql import run_beside

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    run_beside(__file__)
