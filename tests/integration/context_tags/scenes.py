"""Contexts, presets and calls of a test: the application on a connection of its own, calls with hooks.

A trigger watches every test: whoever is not the application may change one stage an UPDATE, must set
`updated_at`, and never touches PENDING or `retry_count` (rules 1 and 4).
"""

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from assets.context_tags.models import DEFAULT_PROFILE
from assets.context_tags.process import (
    Candidate,
    ContextRequest,
    ContextSettings,
    Judgement,
    Outcome,
    Preset,
    PresetSnapshot,
    Selection,
    process_contexts,
)

Pool = ConnectionPool[psycopg.Connection]
Vector = list[float]

TEXT = "비 오는 날 창가에서 친구와 커피를 마셨다"
OTHER_PROFILE = "openai-text-embedding-3-large-1536-cosine-v1"
EXPIRY_AND_MORE = "interval '11 minutes'"

LAW = """
CREATE FUNCTION ai.watch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('test.core', true) = 'yes' THEN
        RETURN new;
    END IF;
    IF old.embedding_status <> new.embedding_status AND old.keyword_status <> new.keyword_status THEN
        RAISE EXCEPTION 'one UPDATE changed both stages';
    END IF;
    -- A session whose clock is moved has it stand still.
    IF old.updated_at = new.updated_at AND coalesce(current_setting('granary.now', true), '') = '' THEN
        RAISE EXCEPTION 'updated_at was not set';
    END IF;
    IF old.retry_count <> new.retry_count
       OR (old.embedding_status <> new.embedding_status AND new.embedding_status IN ('PENDING', 'CANCELLED'))
       OR (old.keyword_status <> new.keyword_status AND new.keyword_status IN ('PENDING', 'CANCELLED')) THEN
        RAISE EXCEPTION 'only the application writes this';
    END IF;
    RETURN new;
END $$;
CREATE TRIGGER watch BEFORE UPDATE ON ai.context_ai_state FOR EACH ROW EXECUTE FUNCTION ai.watch();
"""


def axis(*shares: float) -> Vector:
    """A vector with these shares along the first axes; preset n of `PRESETS` lies along axis n."""
    return [*shares, *[0.0] * (1_536 - len(shares))]


def preset(id_: int, **fields: Any) -> Preset:
    return Preset(
        **{
            "id": id_,
            "code": f"code-{id_}",
            "display_name": f"이름 {id_}",
            "category": "ATMOSPHERE",
            "description": f"설명 {id_}",
            "examples": ("조용한 카페",),
            **fields,
        }
    )


PRESETS = (preset(101), preset(202), preset(303))
SNAPSHOT = PresetSnapshot(7, DEFAULT_PROFILE, PRESETS, (axis(1), axis(0, 1), axis(0, 0, 1)))


class Core:
    """The application: owns the state rows, writes PENDING and CANCELLED."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        connection.execute(LAW)
        connection.execute("SELECT set_config('test.core', 'yes', false)")
        for one, vector in zip(PRESETS, SNAPSHOT.vectors, strict=True):
            connection.execute(
                "INSERT INTO ai.keyword_preset (id, code, display_name, category, description, examples,"
                " embedding, embedding_profile, version) VALUES (%s, %s, %s, %s, %s, %s, %s::vector, %s, 7)",
                (
                    one.id,
                    one.code,
                    one.display_name,
                    one.category,
                    one.description,
                    list(one.examples),
                    str(list(vector)),
                    DEFAULT_PROFILE,
                ),
            )

    def add(self, *ids: int, embedding: str = "PENDING", keyword: str = "PENDING", age: str = "0") -> None:
        """State rows that were touched `age` ago."""
        for id_ in ids:
            self.connection.execute(
                "INSERT INTO ai.context_ai_state (context_id, embedding_status, keyword_status, updated_at)"
                " VALUES (%s, %s, %s, granary.now() - %s::interval)",
                (id_, embedding, keyword, age),
            )

    def set(self, id_: int, **columns: str) -> None:
        """Each column by an UPDATE of its own."""
        for column, status in columns.items():
            statement = sql.SQL(
                "UPDATE ai.context_ai_state SET {} = %s, updated_at = granary.now() WHERE context_id = %s"
            )
            self.connection.execute(statement.format(sql.Identifier(column)), (status, id_))

    def cancel(self, *ids: int) -> None:
        for id_ in ids:
            self.set(id_, embedding_status="CANCELLED", keyword_status="CANCELLED")

    def add_vector(
        self, id_: int, vector: Vector, profile: str = DEFAULT_PROFILE, is_deleted: bool = False
    ) -> None:
        self.connection.execute(
            "INSERT INTO ai.context_embedding (context_id, user_id, record_id, embedding, embedding_profile,"
            " is_deleted) VALUES (%s, 1, 1, %s::vector, %s, %s)",
            (id_, str(vector), profile, is_deleted),
        )

    def state(self, id_: int) -> tuple[str, str]:
        (row,) = self.connection.execute(
            "SELECT embedding_status, keyword_status FROM ai.context_ai_state WHERE context_id = %s", (id_,)
        ).fetchall()
        return row[0], row[1]

    def states(self) -> dict[int, tuple[str, str]]:
        return {
            row[0]: (row[1], row[2])
            for row in self.connection.execute(
                "SELECT context_id, embedding_status, keyword_status FROM ai.context_ai_state"
            )
        }

    def vectors(self) -> dict[int, Vector]:
        """Every stored vector by context."""
        found = self.connection.execute("SELECT context_id, embedding::real[] FROM ai.context_embedding")
        return {row[0]: row[1] for row in found}

    def keywords(self) -> dict[int, dict[int, float]]:
        """Confidence by keyword, by context that was analysed, whether it has keywords or not."""
        found: dict[int, dict[int, float]] = {
            row[0]: {}
            for row in self.connection.execute("SELECT context_id FROM ai.context_keyword_analysis")
        }
        for context_id, keyword_id, confidence in self.connection.execute(
            "SELECT context_id, keyword_id, confidence FROM ai.context_keyword"
        ):
            found.setdefault(context_id, {})[keyword_id] = float(confidence)
        return found

    def rows(self, statement: str) -> list[dict[str, Any]]:
        with self.connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(statement.encode()).fetchall()


class Embeddings:
    """Vectors by text, else along the first preset's axis. `on_call` sees the texts before it answers."""

    def __init__(
        self,
        vectors: dict[str, Any] | None = None,
        on_call: Callable[[list[str]], object] | None = None,
    ) -> None:
        self.vectors = vectors or {}
        self.on_call = on_call
        self.asked: list[list[str]] = []

    def embed(self, texts: list[str]) -> list[list[float]]:
        self.asked.append(texts)
        if self.on_call is not None:
            self.on_call(texts)
        return [self.vectors.get(text, axis(1)) for text in texts]


class Judge:
    """Selects the nearest candidate, or gives `judgement`. `on_call` sees the text before it answers."""

    def __init__(
        self, judgement: Judgement | None = None, on_call: Callable[[str], object] | None = None
    ) -> None:
        self.judgement = judgement
        self.on_call = on_call
        self.asked: list[tuple[str, list[int]]] = []

    def select(self, text: str, candidates: Sequence[Candidate]) -> Judgement:
        self.asked.append((text, [one.preset.id for one in candidates]))
        if self.on_call is not None:
            self.on_call(text)
        nearest = (Selection(candidates[0].preset.id, 0.9),)
        return self.judgement or Judgement(nearest, (), "a-model")


def request(id_: int, text: str = TEXT) -> ContextRequest:
    return ContextRequest(context_id=id_, user_id=1, record_id=1, text=text)


def run(
    pool: Pool,
    *requests: int | ContextRequest,
    embeddings: Any = None,
    judge: Any = None,
    presets: PresetSnapshot = SNAPSHOT,
    wait: Callable[[float], object] = lambda seconds: None,
    clock: Callable[[], float] | None = None,
    **settings: Any,
) -> Outcome:
    """One run; contexts named by their id alone have `TEXT`. It waits for nothing between attempts."""
    more: dict[str, Any] = {"clock": clock} if clock else {}
    return process_contexts(
        [request(one) if isinstance(one, int) else one for one in requests],
        pool=pool,
        embeddings=embeddings or Embeddings(),
        judge=judge or Judge(),
        presets=presets,
        settings=ContextSettings(**settings),
        wait=wait,
        **more,
    )
