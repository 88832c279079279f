"""deploy/postgres on an empty server: the role that it makes is no superuser and may do all that is ours."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from dagster_postgres import DagsterPostgresStorage

from local_stack import postgres_account
from local_stack.ports import LOOPBACK
from local_stack.postgres import EmbeddedPostgres
from migrations.upgrade import upgrade

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "postgres" / "databases.sql"
BINARIES = postgres_account.installed_binaries() / "bin"
PASSWORD = "of 'quotes' and \\ :others"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A new server on which the script was run as the image runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("local_stack.postgres.SUPERUSER", "postgres")
        made = EmbeddedPostgres(tmp_path_factory.mktemp("deployed") / "data", durable=False)
        made.init()
        made.start(die_with_parent=True)
        try:
            psql = BINARIES / "psql"
            subprocess.run(
                [psql, "-v", "ON_ERROR_STOP=1", "--no-psqlrc", "--dbname", made.dsn(), "-f", SCRIPT],
                env={"GRANARY_PASSWORD": PASSWORD},
                check=True,
            )
            yield made
        finally:
            made.remove()


def url(server: EmbeddedPostgres, database: str) -> str:
    return f"postgresql://granary:{quote(PASSWORD, safe='')}@{LOOPBACK}:{server.port}/{database}"


def test_the_role_owns_both_databases_and_may_do_nothing_beyond_them(server: EmbeddedPostgres) -> None:
    with psycopg.connect(url(server, "granary")) as connection:
        may = connection.execute(
            "SELECT rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls FROM pg_roles"
            " WHERE rolname = current_user"
        ).fetchone()
        owned = connection.execute(
            "SELECT datname FROM pg_database WHERE pg_get_userbyid(datdba) = current_user ORDER BY 1"
        ).fetchall()
        groups = connection.execute(
            "SELECT count(*) FROM pg_auth_members WHERE pg_get_userbyid(member) = current_user"
        ).fetchone()
    assert may == (False,) * 5
    assert owned == [("dagster",), ("granary",)]
    assert groups == (0,)


def owners(server: EmbeddedPostgres) -> set[tuple[str, str]]:
    """The schemas of our tables, each with who owns tables in it."""
    with psycopg.connect(url(server, "granary")) as connection:
        found = connection.execute(
            "SELECT DISTINCT schemaname, tableowner FROM pg_tables"
            " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
    return {(schema, owner) for schema, owner in found}


def test_the_role_can_migrate_our_database_and_owns_it_after_a_restore(
    server: EmbeddedPostgres, tmp_path: Path
) -> None:
    upgrade(url(server, "granary"))
    made = owners(server)
    assert {("granary", "granary"), ("news", "granary"), ("recipe", "granary")} <= made
    assert {owner for _, owner in made} == {"granary"}

    backup = tmp_path / "backup"
    ours, by_superuser = url(server, "granary"), server.dsn("granary")
    subprocess.run([BINARIES / "pg_dump", "--format=custom", "--file", backup, ours], check=True)
    how = ["--clean", "--if-exists", "--single-transaction"]  # deploy/README.md
    subprocess.run([BINARIES / "pg_restore", "-d", by_superuser, *how, backup], check=True)
    assert owners(server) == made
    upgrade(url(server, "granary"))


def test_the_role_can_make_dagsters_tables(server: EmbeddedPostgres) -> None:
    storage = DagsterPostgresStorage(url(server, "dagster").replace("://", "+psycopg2://", 1))
    assert storage.run_storage.get_runs_count() == 0
    assert storage.event_log_storage.get_dynamic_partitions("none") == []
    storage.event_log_storage.dispose()
