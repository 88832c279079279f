"""The tables of `ai` belong to the application, another role; ours has only what `grants.sql` gives it."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from assets.context_tags import (
    embedding_store,
    erasure_store,
    keyword_store,
    preset_store,
    request_store,
    rescan_store,
    search_store,
    state_store,
)
from assets.context_tags.erasure_store import Erased
from assets.context_tags.models import DEFAULT_PROFILE, Stage
from assets.context_tags.preset_file import PresetFile
from local_stack.postgres import EmbeddedPostgres
from migrations.upgrade import upgrade
from tests.integration.context_tags.store_rows import ask, judged, made_vector, preset, vector

Connection = psycopg.Connection
SQL_FOLDER = Path(state_store.__file__).parent / "sql"

# As the contract has them and the application makes them: without our constraints, with a column of its own.
TABLES = {
    "keyword_preset": """CREATE TABLE ai.keyword_preset (
        id int PRIMARY KEY, code varchar(50) UNIQUE NOT NULL, display_name varchar(50) NOT NULL,
        category varchar(30) NOT NULL, description text, examples text[], embedding vector(1536),
        embedding_profile varchar(100), visibility varchar(20) DEFAULT 'PUBLIC', is_active bool DEFAULT true,
        version int DEFAULT 1)""",
    "context_ai_state": """CREATE TABLE ai.context_ai_state (
        context_id bigint PRIMARY KEY, embedding_status varchar(20) DEFAULT 'PENDING',
        keyword_status varchar(20) DEFAULT 'PENDING', retry_count int DEFAULT 0,
        updated_at timestamptz DEFAULT now(), note_of_the_application text)""",
    "context_embedding": """CREATE TABLE ai.context_embedding (
        context_id bigint PRIMARY KEY, user_id bigint, record_id bigint, embedding vector(1536),
        embedding_profile varchar(100), is_deleted bool DEFAULT false, updated_at timestamptz)""",
    "context_keyword": """CREATE TABLE ai.context_keyword (
        context_id bigint, keyword_id int REFERENCES ai.keyword_preset,
        confidence numeric(4,3) CHECK (confidence IS NULL OR confidence BETWEEN 0 AND 1), preset_version int,
        PRIMARY KEY (context_id, keyword_id))""",
    "context_keyword_analysis": """CREATE TABLE ai.context_keyword_analysis (
        context_id bigint PRIMARY KEY, preset_version int, unmatched_concepts jsonb DEFAULT '[]',
        model_profile varchar(100), updated_at timestamptz)""",
}


class Foreign:
    """A database of ours in which another role has a schema `ai`."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        suffix = uuid.uuid4().hex[:12]
        self.database, self.ours, self.owner = f"foreign_{suffix}", f"granary_{suffix}", f"core_{suffix}"
        self._server = server
        self._opened: list[Connection] = []

    def make(self) -> None:
        for role in (self.ours, self.owner):
            self._as_superuser("CREATE ROLE {} LOGIN PASSWORD 'for-the-test'", role)
        self._as_superuser("CREATE DATABASE {} OWNER {}", self.database, self.ours)
        with psycopg.connect(self._server.dsn(self.database), autocommit=True) as superuser:
            superuser.execute("CREATE EXTENSION vector")
            superuser.execute(sql.SQL("CREATE SCHEMA ai AUTHORIZATION {}").format(sql.Identifier(self.owner)))

    def remove(self) -> None:
        for connection in self._opened:
            connection.close()
        self._as_superuser("DROP DATABASE {} WITH (FORCE)", self.database)
        for role in (self.ours, self.owner):
            self._as_superuser("DROP ROLE {}", role)

    def url(self, role: str) -> str:
        host = self._server.dsn(self.database).rpartition("@")[2]
        return f"postgresql://{role}:for-the-test@{host}"

    def connect(self, role: str) -> Connection:
        connection = psycopg.connect(make_conninfo(self.url(role)), autocommit=True)
        self._opened.append(connection)
        return connection

    def make_tables(self, *names: str) -> Connection:
        """The application's connection, after it has made these tables."""
        core = self.connect(self.owner)
        for name in names:
            core.execute(TABLES[name].encode())
        return core

    def grant(self, core: Connection) -> None:
        grants = (SQL_FOLDER / "grants.sql").read_text(encoding="utf-8")
        core.execute(grants.replace("granary_role", self.ours).encode())

    def _as_superuser(self, statement: str, *names: str) -> None:
        with psycopg.connect(self._server.dsn(), autocommit=True) as superuser:
            superuser.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


@pytest.fixture
def foreign(postgres_server: EmbeddedPostgres) -> Iterator[Foreign]:
    made = Foreign(postgres_server)
    made.make()
    yield made
    made.remove()


@pytest.fixture
def core(foreign: Foreign) -> Connection:
    """The application, whose tables are there and granted, after our migration ran."""
    core = foreign.make_tables(*TABLES)
    foreign.grant(core)
    upgrade(foreign.url(foreign.ours))
    return core


@pytest.fixture
def ours(core: Connection, foreign: Foreign) -> Connection:
    return foreign.connect(foreign.ours)


def catalog(connection: Connection) -> list[tuple[str, ...]]:
    """Every object, column, constraint and index of the schema `ai`, with who owns it."""
    return connection.execute(
        "SELECT 'relation', relname, relowner::text, relacl::text FROM pg_class"
        " WHERE relnamespace = to_regnamespace('ai')"
        " UNION ALL SELECT 'column', attrelid::regclass::text, attname, attacl::text FROM pg_attribute"
        " JOIN pg_class ON pg_class.oid = attrelid WHERE relnamespace = to_regnamespace('ai')"
        " UNION ALL SELECT 'constraint', conname, pg_get_constraintdef(oid), '' FROM pg_constraint"
        " WHERE connamespace = to_regnamespace('ai')"
        " ORDER BY 1, 2, 3"
    ).fetchall()


def test_the_migration_changes_nothing_in_the_schema_of_another(foreign: Foreign) -> None:
    core = foreign.make_tables(*TABLES)
    before = catalog(core)
    upgrade(foreign.url(foreign.ours))
    assert catalog(core) == before
    ours = foreign.connect(foreign.ours)
    assert ours.execute("SELECT count(*) FROM granary.context_request").fetchone() == (0,)


def test_the_migration_refuses_a_schema_with_only_some_of_the_tables(foreign: Foreign) -> None:
    core = foreign.make_tables("keyword_preset", "context_ai_state", "context_embedding")
    foreign.connect(foreign.owner).execute("GRANT ALL ON SCHEMA ai TO PUBLIC")
    before = catalog(core)
    with pytest.raises(Exception, match="has 3 of the five tables of context_tags: let the application make"):
        upgrade(foreign.url(foreign.ours))
    assert catalog(core) == before
    core.execute(TABLES["context_keyword"].encode())
    core.execute(TABLES["context_keyword_analysis"].encode())
    upgrade(foreign.url(foreign.ours))


def test_what_is_not_granted_is_named_before_anything_fails(foreign: Foreign) -> None:
    core = foreign.make_tables(*TABLES)
    upgrade(foreign.url(foreign.ours))
    ours = foreign.connect(foreign.ours)
    missing = state_store.missing_columns(ours)
    assert missing[-1] == "schema ai: no USAGE"
    assert "ai.context_embedding: no DELETE" in missing
    foreign.grant(core)
    assert state_store.missing_columns(ours) == []
    assert state_store.missing_columns(ours, own_state=True) == [
        "ai.context_ai_state.context_id: no INSERT",
        "ai.context_ai_state.retry_count: no SELECT",
        "ai.context_ai_state.retry_count: no UPDATE",
        "ai.context_ai_state.updated_at: no INSERT",
    ]
    core.execute(
        sql.SQL("REVOKE UPDATE (keyword_status) ON ai.context_ai_state FROM {}").format(
            sql.Identifier(foreign.ours)
        )
    )
    assert state_store.missing_columns(ours) == ["ai.context_ai_state.keyword_status: no UPDATE"]


def write_presets(connection: Connection) -> None:
    file = PresetFile(2, (preset(101), preset(202)))
    assert preset_store.differs(connection, file, DEFAULT_PROFILE)
    preset_store.write(connection, file, DEFAULT_PROFILE, {101: vector(1.0), 202: vector(0.0, 1.0)})
    swapped = PresetFile(3, (preset(101, code="CODE_202"), preset(202, code="CODE_101")))
    preset_store.write(connection, swapped, DEFAULT_PROFILE, {})
    preset_store.write(connection, PresetFile(4, swapped.presets[:1]), DEFAULT_PROFILE, {})
    assert len(preset_store.snapshot(connection, DEFAULT_PROFILE).presets) == 1


def core_adds(core: Connection, *context_ids: int) -> None:
    for context_id in context_ids:
        core.execute("INSERT INTO ai.context_ai_state (context_id) VALUES (%s)", (context_id,))


def test_everything_of_ours_works_with_the_documented_grants_alone(
    core: Connection, ours: Connection
) -> None:
    write_presets(ours)
    core_adds(core, 1, 2)
    for context_id in (1, 2):
        accepted = request_store.accept(ours, ask(context_id, user_id=7), {"place": "집"}, "hmac", False)
        assert accepted.text_was_taken
    requests = request_store.waiting(ours, None, 10)
    assert len(requests) == 2
    assert state_store.states(ours, [1, 2]).keys() == {1, 2}

    starts = state_store.start(ours, Stage.EMBEDDING, [1, 2], 600)
    assert state_store.fail(ours, Stage.EMBEDDING, {2: starts[2].token}) == {2}
    assert embedding_store.store(ours, [made_vector(1, starts[1].token)], DEFAULT_PROFILE) == {1}
    assert embedding_store.vectors(ours, [1])[1][0] == DEFAULT_PROFILE
    found = search_store.nearest(ours, 1, vector(1.0), DEFAULT_PROFILE, 10, 0.3)
    assert [one.context_id for one in found] == [1]
    for _ in range(2):
        token = state_store.start(ours, Stage.KEYWORD, [1], 600)[1].token
        assert keyword_store.store(ours, [judged(1, token, 101, concepts=["야경"])], 4) == {1}
        core.execute("UPDATE ai.context_ai_state SET keyword_status = 'PENDING' WHERE context_id = 1")
    assert state_store.fail(ours, Stage.KEYWORD, {1: token}) == set()

    assert request_store.handled(ours, requests) == 2
    assert request_store.forget(ours) == 0
    assert request_store.overdue_texts(ours) == 0
    assert request_store.handle_without_text(ours) == 0
    assert request_store.days_waiting(ours) == []
    day = requests[0].requested_at
    assert day is not None
    assert request_store.counts_by_day(ours, [day.date()])[day.date()].embedded == 1
    assert erasure_store.erase_user(ours, 7).requests == 2
    assert erasure_store.erase_user(ours, 1) == Erased(0, 1, 0, 0, 0)


def test_a_context_that_the_application_deleted_stays_deleted_when_it_is_embedded_anew(
    core: Connection, ours: Connection
) -> None:
    core_adds(core, 1)
    for _ in range(2):
        token = state_store.start(ours, Stage.EMBEDDING, [1], 600)[1].token
        assert embedding_store.store(ours, [made_vector(1, token)], DEFAULT_PROFILE) == {1}
        core.execute("UPDATE ai.context_embedding SET is_deleted = true")
        core.execute("UPDATE ai.context_ai_state SET embedding_status = 'PENDING'")
    assert core.execute("SELECT is_deleted FROM ai.context_embedding").fetchone() == (True,)


FORBIDDEN = {
    "retry_count": "UPDATE ai.context_ai_state SET retry_count = 0",
    "is_deleted": "UPDATE ai.context_embedding SET is_deleted = true",
    "a new state": "INSERT INTO ai.context_ai_state (context_id) VALUES (2)",
    "deleting a state": "DELETE FROM ai.context_ai_state",
    "deleting a preset": "DELETE FROM ai.keyword_preset",
    "the application's own column": "SELECT note_of_the_application FROM ai.context_ai_state",
    "an index": "CREATE INDEX ON ai.context_embedding (record_id)",
    "a column": "ALTER TABLE ai.context_embedding ADD COLUMN more int",
    "a table": "CREATE TABLE ai.more (id int)",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_postgres_refuses_our_role_what_is_the_applications(
    core: Connection, ours: Connection, what: str
) -> None:
    core_adds(core, 1)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        ours.execute(FORBIDDEN[what].encode())


OWN_STATE_ONLY: dict[str, Callable[[Connection], object]] = {
    "accept": lambda ours: request_store.accept(ours, ask(1), None, "hmac", True),
    "resend": rescan_store.resend,
    "finalise": rescan_store.finalise,
}


@pytest.mark.parametrize("what", OWN_STATE_ONLY)
def test_what_own_state_does_is_not_granted(ours: Connection, what: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        OWN_STATE_ONLY[what](ours)
