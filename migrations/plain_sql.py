"""Runs the plain SQL file that stands beside a revision."""

from pathlib import Path

from alembic import op


def run_beside(revision_file: str) -> None:
    """Executes `<revision>.sql` as it stands, in the migration's transaction."""
    statements = Path(revision_file).with_suffix(".sql").read_text(encoding="utf-8")
    # The driver's own cursor: SQLAlchemy's text() would read `:name` and `%` in the SQL as parameters.
    op.get_bind().connection.cursor().execute(statements)
