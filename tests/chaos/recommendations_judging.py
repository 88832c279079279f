"""What must hold after a storm over recommendations, by Postgres and the provider's account."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql

from tests.chaos import database
from tests.chaos.services import Addresses, stand_in
from tests.chaos.storm import WORKERS
from tests.integration.recommendations.factories import HOUR, TABLES_OF_MEMBERS

SIZE = 5
OF_DEAD_RUNS = ("run_ended", "lease_lost")
# Whoever changes an item, leases a trigger or stores a vector: no row says it by itself.
AUDIT = """
CREATE TABLE noted
    (id bigserial, item bigint, member_id bigint, status text, claimed_by text, error text, run text);
CREATE FUNCTION note_item() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO noted (item, member_id, status, claimed_by, error, run) VALUES
        (new.id, new.member_id, new.status, new.claimed_by, new.error, current_setting('application_name'));
    RETURN new;
END $$;
CREATE TRIGGER note_item AFTER UPDATE OF status ON rec.queue_item FOR EACH ROW EXECUTE FUNCTION note_item();
CREATE TABLE leased (token uuid, run text);
CREATE FUNCTION note_lease() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO leased VALUES (new.lease_token, current_setting('application_name'));
    RETURN new;
END $$;
CREATE TRIGGER note_lease AFTER UPDATE OF lease_token ON rec.visit_trigger FOR EACH ROW
    WHEN (new.lease_token IS NOT NULL) EXECUTE FUNCTION note_lease();
CREATE TABLE embedded
    (product_id bigint, text_hash text, run text, stored_in xid8 DEFAULT pg_current_xact_id());
CREATE FUNCTION note_vector() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO embedded VALUES (new.product_id, new.text_hash, current_setting('application_name'));
    RETURN new;
END $$;
CREATE TRIGGER note_vector AFTER INSERT OR UPDATE OF embedding ON rec.product_embedding FOR EACH ROW
    EXECUTE FUNCTION note_vector();
CREATE TABLE outdated (run text);
"""
_IN_ORDER = """
SELECT item, status, claimed_by, error, run, lag(status) OVER writes AS before,
       lag(claimed_by) OVER writes AS claimed_before
FROM noted WINDOW writes AS (PARTITION BY item ORDER BY id)
"""
_SETS = """
SELECT member_id, array_agg(product_id ORDER BY rank) AS products, array_agg(rank ORDER BY rank) AS ranks,
       array_agg(DISTINCT queue_item_id) AS items, bool_or(candidate_generation_type <> 'G0') AS is_profiled
FROM rec.recommended_product GROUP BY member_id
"""
_EMBEDDED = """
SELECT product_id, count(*) AS n, count(DISTINCT run) AS runs FROM embedded
GROUP BY product_id, text_hash HAVING count(*) > 1
"""
_STORED = "SELECT count(DISTINCT stored_in) AS requests, array_agg(DISTINCT run) AS runs FROM embedded"


class Judge:
    """Remembers the visits, who refused profiling or was erased, what was bought; tells what is wrong."""

    def __init__(self, at: Addresses) -> None:
        self._at = at
        self.visits: dict[int, list[datetime]] = {}
        self.bought: dict[int, int] = {}
        self.opted_out: set[int] = set()
        self.erased: set[int] = set()
        self.ended_badly: set[str] = set()
        with psycopg.connect(at.database_url, autocommit=True) as connection:
            connection.execute(AUDIT)

    def mistakes(self) -> list[str]:
        return [
            *self._wrong_items(),
            *self._wrong_sets(),
            *self._wrong_writes(),
            *self._wrong_members(),
            *self._wrong_calls(),
            *database.wrong_money(self._at.database_url, self._at.openai),
        ]

    def _wrong_items(self) -> Iterator[str]:
        """Each visit was queued an hour after, unless another of its member came or waited before it was."""
        queued = self._rows("SELECT member_id, last_visited_at, due_offset FROM rec.queue_item")
        at_first = {(row["member_id"], row["last_visited_at"]) for row in queued if row["due_offset"] == HOUR}
        for member, visits in self.visits.items():
            if member not in self.erased and not any((member, visit) in at_first for visit in visits):
                yield f"member {member} was never queued"
        known = {(member, visit) for member, visits in self.visits.items() for visit in visits}
        for row in queued:
            if (row["member_id"], row["last_visited_at"]) not in known:
                yield f"member {row['member_id']} was queued for a visit that was none"
        triggers = self._rows("SELECT member_id, last_visited_at FROM rec.visit_trigger")
        stands = {row["member_id"]: row["last_visited_at"] for row in triggers}
        for member, visits in self.visits.items():
            stand = stands.get(member)
            if member not in self.erased and stand != visits[-1]:
                yield f"member {member}: the trigger is of {stand}, the last visit of {visits[-1]}"

    def _wrong_sets(self) -> Iterator[str]:
        latest = {
            row["member_id"]: row["item"]
            for row in self._rows("SELECT member_id, item FROM noted WHERE status = 'SUCCEEDED' ORDER BY id")
        }
        sets = {row["member_id"]: row for row in self._rows(_SETS)}
        for member in self.visits.keys() - self.erased:
            found, refused = sets.get(member), member in self.opted_out
            if found is not None:
                yield from self._wrong_set(found, latest.get(member), refused)
            elif not refused:  # a set of before was profiled, and is taken away with the refusal
                yield f"member {member} has no set"

    def _wrong_set(self, found: dict[str, Any], latest: int | None, refused: bool) -> Iterator[str]:
        member = found["member_id"]
        if refused and found["is_profiled"]:
            yield f"member {member} has refused profiling and has a profiled set"
        if found["ranks"] != list(range(1, SIZE + 1)):
            yield f"member {member}: the ranks are {found['ranks']}"
        products = found["products"]
        if len(set(products)) < len(products) or self.bought.get(member) in products:
            yield f"member {member}: doubled, or bought: {products}"
        if found["items"] != [latest]:
            yield f"member {member}: the set is of {found['items']}, the last was {latest}"

    def _wrong_writes(self) -> Iterator[str]:
        """An item is ended once, by the run that has picked it last; nothing fails but by two deaths."""
        for row in self._rows(_IN_ORDER):
            what = f"item {row['item']}: {row['status']} by {row['run']}"
            is_end = row["status"] == "SUCCEEDED" or (
                row["status"] == "FAILED" and row["error"] not in OF_DEAD_RUNS
            )
            if is_end and (row["before"], row["claimed_before"]) != ("RUNNING", row["run"]):
                yield f"{what} after {row['before']} by {row['claimed_before']}"
            if row["status"] == "FAILED" and row["error"] not in OF_DEAD_RUNS:
                yield f"{what}: {row['error']}"

    def _wrong_members(self) -> Iterator[str]:
        for table in TABLES_OF_MEMBERS:
            query = sql.SQL("SELECT DISTINCT member_id AS id FROM rec.{}").format(sql.Identifier(table))
            for member in {row["id"] for row in self._rows(query)} & self.erased:
                yield f"member {member} is in rec.{table} again after being erased"

    def _wrong_calls(self) -> Iterator[str]:
        """A text is embedded once, or by runs that were at it at once; each request was stored, or lost.

        Lost with its run, which then has stored nothing: all that has changed fits into one request.
        """
        for row in self._rows(_EMBEDDED):
            if row["n"] > row["runs"] or row["runs"] > WORKERS:
                yield f"product {row['product_id']}: {row['n']} vectors of one text by {row['runs']} runs"
        ledger = stand_in(self._at.openai).get("ledger")["entries"]
        paid = sum(one["endpoint"] == "embeddings" and one["status"] == 200 for one in ledger)
        (stored,) = self._rows(_STORED)
        lost = len(self.ended_badly - set(stored["runs"] or ()))
        (outdated,) = self._rows("SELECT count(*) AS n FROM outdated")
        if not stored["requests"] <= paid <= stored["requests"] + lost + outdated["n"]:
            yield (
                f"{paid} requests for vectors were paid, {stored['requests']} stored: more than "
                f"{lost} dead runs and {outdated['n']} outdated answers explain"
            )

    def _rows(self, query: str | sql.Composed) -> list[dict[str, Any]]:
        return database.rows(self._at.database_url, query)
