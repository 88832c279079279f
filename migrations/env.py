"""Alembic's entry: one history, plain SQL, the database that `upgrade()` hands over."""

from alembic import context
from sqlalchemy import text

connection = context.config.attributes["connection"]
# Two machines that start at once must not migrate at once; the lock ends with the transaction.
context.configure(connection=connection, target_metadata=None, version_table="granary_migration")
with context.begin_transaction():
    connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('granary.migrations'))"))
    context.run_migrations()
