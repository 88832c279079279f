"""Brings a database to the newest revision: `python -m migrations.upgrade` with DATABASE_URL set."""

import os
import sys
from pathlib import Path


def upgrade(database_url: str) -> None:
    """Applies the revisions that the database lacks; safe to call again and from two places at once.

    `database_url` is a `postgresql://` address. Raises SQLAlchemy's errors where it cannot be reached.
    """
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    url = "postgresql+psycopg://" + database_url.split("://", 1)[1]
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        connection.commit()
    engine.dispose()


if __name__ == "__main__":
    if not os.environ.get("DATABASE_URL"):
        sys.exit("DATABASE_URL is not set: run `make up`, then `. .local/env`")
    upgrade(os.environ["DATABASE_URL"])
