"""What must hold after a storm over context_tags, by Postgres and the provider's account."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg

from assets.context_tags.prompt import SCHEMA_NAME
from tests.chaos import database
from tests.chaos.services import Addresses, stand_in

CONCURRENCY = 2
TOO_LONG_EVERY = 11
FINAL = frozenset({"COMPLETED", "FAILED", "CANCELLED"})

# Whoever writes a status, and which: in the order of the writes, since each holds the lock of the row.
AUDIT = """
CREATE TABLE noted (id bigserial, context_id bigint, stage text, status text, run text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO noted (context_id, stage, status, run)
    VALUES (new.context_id, tg_argv[0], to_jsonb(new) ->> tg_argv[0], current_setting('application_name'));
    RETURN new;
END $$;
CREATE TRIGGER note_embedding AFTER UPDATE OF embedding_status ON ai.context_ai_state
    FOR EACH ROW EXECUTE FUNCTION note('embedding_status');
CREATE TRIGGER note_keyword AFTER UPDATE OF keyword_status ON ai.context_ai_state
    FOR EACH ROW EXECUTE FUNCTION note('keyword_status');
"""
_STATES = """
SELECT state.context_id AS id, embedding_status AS embedding, keyword_status AS keyword,
       is_deleted, vector.context_id IS NOT NULL AS has_vector, analysis.context_id IS NOT NULL AS is_judged,
       EXISTS (SELECT FROM ai.context_keyword AS one WHERE one.context_id = state.context_id) AS has_keywords,
       request.context_id IS NOT NULL AS is_known, request.text IS NOT NULL AS has_text
FROM ai.context_ai_state AS state
LEFT JOIN ai.context_embedding AS vector USING (context_id)
LEFT JOIN ai.context_keyword_analysis AS analysis USING (context_id)
LEFT JOIN granary.context_request AS request USING (context_id)
ORDER BY state.context_id
"""
_IN_ORDER = """
SELECT context_id, stage, status, run, lag(status) OVER writes AS before, lag(run) OVER writes AS run_before
FROM noted WINDOW writes AS (PARTITION BY context_id, stage ORDER BY id)
"""


class Judge:
    """Remembers what the application did with each context, and tells by it what is wrong."""

    def __init__(self, at: Addresses) -> None:
        self._at = at
        self.contexts = 0
        self.cancelled: set[int] = set()
        self.deleted: set[int] = set()
        self.erased: set[int] = set()
        self.ended_badly = 0
        with psycopg.connect(at.database_url, autocommit=True) as connection:
            connection.execute(AUDIT)

    def open_contexts(self) -> dict[int, str]:
        """The stages of those that are not final, in words."""
        return {
            row["id"]: f"{row['embedding']}, {row['keyword']}"
            for row in self._rows(_STATES)
            if not _is_final(row)
        }

    def mistakes(self) -> list[str]:
        states = self._rows(_STATES)
        mistakes = [mistake for row in states for mistake in self._wrong_context(row)]
        if len(states) != self.contexts:
            mistakes.append(f"{len(states)} states of {self.contexts} contexts")
        return [*mistakes, *self._wrong_writes(), *self._wrong_calls()]

    def _wrong_context(self, row: dict[str, Any]) -> Iterator[str]:
        id_, stages = row["id"], (row["embedding"], row["keyword"])
        if row["has_text"]:
            yield f"context {id_}: its text is still kept"
        if id_ in self.erased:
            if not _is_final(row):
                yield f"context {id_} was erased and is {stages}"
            if row["has_vector"] or row["is_judged"] or row["has_keywords"] or row["is_known"]:
                yield f"context {id_} came back after its user was erased"
            return
        if id_ in self.cancelled:
            if stages != ("CANCELLED", "CANCELLED"):
                yield f"context {id_} was cancelled and is {stages}"
            if row["is_judged"] or row["has_keywords"] or (row["has_vector"] and not row["is_deleted"]):
                yield f"context {id_} came back after it was cancelled"
            return
        wanted = ("FAILED", "FAILED") if is_too_long(id_) else ("COMPLETED", "COMPLETED")
        if stages != wanted:
            yield f"context {id_} is {stages}, not {wanted}"
        if (row["has_vector"], row["is_judged"]) != (not is_too_long(id_),) * 2:
            yield f"context {id_} is {stages}: vector {row['has_vector']}, analysis {row['is_judged']}"
        if bool(row["is_deleted"]) != (id_ in self.deleted):
            yield f"context {id_}: deleted {row['is_deleted']}, which the application did not write"

    def _wrong_writes(self) -> Iterator[str]:
        """A stage is ended once, by the run that has begun it last; nothing follows a cancel."""
        for row in self._rows(_IN_ORDER):
            what = f"context {row['context_id']}, {row['stage']}: {row['status']} by {row['run']}"
            begun = (row["before"], row["run_before"])
            if row["before"] == "CANCELLED":
                yield f"{what} after it was cancelled"
            is_end = row["status"] in ("COMPLETED", "FAILED") and row["run"] != "core"
            if is_end and begun != ("PROCESSING", row["run"]):
                yield f"{what} after {begun[0]} by {begun[1]}"

    def _wrong_calls(self) -> Iterator[str]:
        """Charged is booked or still reserved; no judgement was paid again but for one that was lost."""
        yield from database.wrong_money(self._at.database_url, self._at.openai)
        ledger = stand_in(self._at.openai).get("ledger")["entries"]
        paid = sum(one["endpoint"] == "chat/completions" and one["status"] == 200 for one in ledger)
        written = Counter((row["stage"], row["status"]) for row in self._rows(_IN_ORDER))
        stored = written["keyword_status", "COMPLETED"]
        dead = CONCURRENCY * self.ended_badly
        url = self._at.database_url
        lost = database.counted(url, "openai_api_requests_total", schema=SCHEMA_NAME, status="none")
        discarded = database.counted(url, "context_stage_total", stage="keyword", outcome="discarded")
        if not stored <= paid <= stored + dead + lost + discarded:
            yield (
                f"{paid} judgements were paid, {stored} stored: more than {dead} of dead runs, "
                f"{lost} unanswered and {discarded} discarded ones explain"
            )

    def _rows(self, query: str) -> list[dict[str, Any]]:
        return database.rows(self._at.database_url, query)


def is_too_long(id_: int) -> bool:
    """Posted all the same: such a text fails for good, and no other."""
    return id_ % TOO_LONG_EVERY == 0


def _is_final(row: dict[str, Any]) -> bool:
    return {row["embedding"], row["keyword"]} <= FINAL
