"""What must hold after a storm over economy_news, by Postgres and the accounts of provider and site."""

from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import httpx
import psycopg
from psycopg import sql

from assets.economy_news.models import JobMode, Partition
from tests.chaos import database
from tests.chaos.services import Addresses, stand_in

KEY = "sk-storm"
DAY = date(2026, 3, 2)
MODES = {Partition(DAY, "STOCK"): JobMode.live, Partition(DAY, "FINANCE"): JobMode.batch}

# A result of a live call, and a job that was deleted while one was under way: taking down deletes both.
NOTE = """
CREATE TABLE noted (what text);
CREATE FUNCTION note_result() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO noted SELECT 'result' FROM news.ai_job WHERE id = new.job_id AND batch_plan IS NULL;
    RETURN new;
END $$;
CREATE TRIGGER note_result AFTER INSERT ON news.ai_result FOR EACH ROW EXECUTE FUNCTION note_result();
CREATE FUNCTION note_taken_down() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO noted VALUES ('taken down');
    RETURN old;
END $$;
CREATE TRIGGER note_taken_down AFTER DELETE ON news.ai_job FOR EACH ROW
    WHEN (old.status = 'RUNNING') EXECUTE FUNCTION note_taken_down();
"""
_ROWS_OF = {"SUMMARY": 1, "TERM_CARDS": 3, "INSIGHT": 3, "QUIZ_CONTENT": 3, "QUIZ_TERM": 3}


class Judge:
    """Remembers what was done to articles and runs, and tells by it what is wrong.

    `asked_by_dead`: most live calls that runs which ended badly can have had under way.
    """

    def __init__(self, at: Addresses) -> None:
        self._at = at
        self.taken_down: set[str] = set()
        self.deleted: set[str] = set()
        self.asked_by_dead = 0
        self.failures: list[str] = []
        with psycopg.connect(at.database_url, autocommit=True) as connection:
            connection.execute(NOTE)

    def mistakes(self) -> list[str]:
        return [
            *self.failures,
            *self._wrong_articles(),
            *self._wrong_jobs(),
            *self._wrong_batches(),
            *self._wrong_calls(),
            *database.wrong_money(self._at.database_url, self._at.openai),
        ]

    def present(self) -> list[str]:
        """`oid/aid` of what is out, and was neither taken down nor deleted."""
        return sorted(set(self._expected()) - self.taken_down - self.deleted)

    def missing(self) -> list[str]:
        """Those of them that are not stored."""
        stored = self._stored()
        return [one for one in self.present() if one not in stored]

    def repeated_calls(self) -> int:
        """Live answers of which no result came: what kills and lost answers cost. No second questions."""
        entries = stand_in(self._at.openai).get("ledger")["entries"]
        paid: int = sum(
            one["endpoint"] == "chat/completions" and one["status"] == 200 and one["custom_id"] is None
            for one in entries
        )
        # Nothing breaks a rule in a batch here: the one count that is of both is of live calls.
        asked_again = database.counted(self._at.database_url, "ai_jobs_events_total", event="asked_again")
        return paid - self._noted("result") - asked_again

    def lines_paid(self) -> Counter[str]:
        """How often the line of each job was answered in a batch."""
        entries = stand_in(self._at.openai).get("ledger")["entries"]
        return Counter(
            one["custom_id"] for one in entries if one["custom_id"] is not None and one["status"] == 200
        )

    def _expected(self) -> list[str]:
        """`oid/aid` of what a right crawl stores of what is out by now, by the site's own account."""
        (row,) = self._rows("SELECT granary.now() AS now")
        manifest = stand_in(self._at.naver_site).get("manifest", date=DAY.isoformat())
        sections = {partition.section for partition in MODES}
        return [
            f"{one['oid']}/{one['aid']}"
            for one in manifest["articles"]
            if one["expected"] == "stored"
            and set(one["sections"]) & sections
            and datetime.fromisoformat(one["listed_at"]) <= row["now"]
        ]

    def _wrong_articles(self) -> list[str]:
        stored = self._stored()
        strange = stored - set(self._expected()) - self.deleted
        mistakes = [f"article {one} should not be there" for one in sorted(strange)]
        mistakes += [f"article {one} is back after it was taken down" for one in stored & self.taken_down]
        without = self._rows(
            "SELECT id FROM news.article AS article WHERE body_characters >= 1000 "
            "AND NOT EXISTS (SELECT FROM news.ai_job WHERE job_type = 'SUMMARY' "
            "                AND article_id IN (article.id, article.duplicate_of))"
        )
        return mistakes + [f"article {row['id']} has no summary job" for row in without]

    def _wrong_jobs(self) -> list[str]:
        mistakes = []
        for row in self._rows(
            "SELECT id, job_type, status, error_code FROM news.ai_job WHERE status <> 'SUCCESS'"
        ):
            mistakes.append(f"job {row['id']} {row['job_type']}: {row['status']} {row['error_code']}")
        for row in self._rows(
            "SELECT article_id, job_type, count(*) AS n FROM news.ai_job GROUP BY 1, 2 HAVING count(*) > 1 "
            "UNION ALL SELECT job.article_id, job.job_type, count(result.id) AS n FROM news.ai_job AS job "
            "LEFT JOIN news.ai_result AS result ON result.job_id = job.id WHERE job.status = 'SUCCESS' "
            "GROUP BY 1, 2 HAVING count(result.id) <> 1"
        ):
            mistakes.append(f"article {row['article_id']} has {row['n']} of {row['job_type']}")
        for row in self._rows(
            "SELECT summary.article_id, following.job_type FROM news.summary AS summary "
            "CROSS JOIN unnest('{TERM_CARDS,INSIGHT,QUIZ_CONTENT}'::text[]) AS following (job_type) "
            "WHERE NOT EXISTS (SELECT FROM news.ai_job AS job WHERE job.article_id = summary.article_id "
            "                  AND job.job_type = following.job_type) "
            "UNION ALL SELECT DISTINCT card.article_id, 'QUIZ_TERM' FROM news.term_card AS card "
            "WHERE NOT EXISTS (SELECT FROM news.ai_job AS job WHERE job.article_id = card.article_id "
            "                  AND job.job_type = 'QUIZ_TERM')"
        ):
            mistakes.append(f"article {row['article_id']} never got its {row['job_type']}")
        for row in self._rows(
            "SELECT article.id FROM news.article AS article WHERE (completed_at IS NOT NULL) "
            "<> (5 = (SELECT count(DISTINCT job_type) FROM news.ai_result WHERE article_id = article.id))"
        ):
            mistakes.append(f"article {row['id']} is told to be complete and is not, or the other way")
        return mistakes + self._wrong_rows()

    def _wrong_rows(self) -> list[str]:
        """Every result has its rows, all of them once."""
        mistakes = []
        for table in ("summary", "term_card", "insight", "quiz"):
            query = sql.SQL(
                "SELECT result.id, result.job_type, count(*) AS n FROM news.{} AS made "
                "JOIN news.ai_result AS result ON result.id = made.result_id GROUP BY 1, 2"
            ).format(sql.Identifier(table))
            found = self._rows(query)
            mistakes += [
                f"result {row['id']} of {row['job_type']} has {row['n']} rows"
                for row in found
                if row["n"] != _ROWS_OF[row["job_type"]]
            ]
            self._count_results(table, found, mistakes)
        return mistakes

    def _count_results(self, table: str, found: list[dict[str, Any]], mistakes: list[str]) -> None:
        of_table = {
            "summary": ["SUMMARY"],
            "term_card": ["TERM_CARDS"],
            "insight": ["INSIGHT"],
            "quiz": ["QUIZ_CONTENT", "QUIZ_TERM"],
        }[table]
        (row,) = self._rows("SELECT count(*) AS n FROM news.ai_result WHERE job_type = ANY(%s)", of_table)
        if row["n"] != len(found):
            mistakes.append(f"{row['n']} results of {', '.join(of_table)}, but {len(found)} in {table}")

    def _wrong_batches(self) -> list[str]:
        """A batch at the provider that nobody knows was paid for nothing; a good line is asked once."""
        api = stand_in(self._at.openai)
        entries = api.get("ledger")["entries"]
        known = {row["batch_id"] for row in self._rows("SELECT batch_id FROM news.ai_batch")}
        cancelled = {one["batch_id"] for one in entries if one["endpoint"] == "batches/cancel"}
        made = {
            one["batch_id"] for one in entries if one["endpoint"] == "batches/create" and one["status"] == 200
        }
        mistakes = [
            f"batch {one} is at the provider, and nobody knows it" for one in made - known - cancelled
        ]
        paid = self.lines_paid()
        mistakes += [f"the line of job {one} was paid {n} times" for one, n in paid.items() if n > 1]
        headers = {"Authorization": f"Bearer {KEY}"}
        files = httpx.get(f"{self._at.openai}/v1/files", headers=headers, timeout=30).json()["data"]
        return mistakes + [f"file {one['filename']} is left at the provider" for one in files]

    def _wrong_calls(self) -> Iterator[str]:
        """A live answer is paid again only if it was lost: with its run, on its way, with its article."""
        again = self.repeated_calls()
        lost = database.counted(self._at.database_url, "openai_api_requests_total", status="none")
        taken_down = self._noted("taken down")
        if not 0 <= again <= self.asked_by_dead + lost + taken_down:
            yield (
                f"{again} live answers brought no result: at most {self.asked_by_dead} of dead runs, "
                f"{lost} unanswered and {taken_down} of articles taken down explain it"
            )

    def _noted(self, what: str) -> int:
        (row,) = self._rows("SELECT count(*) AS n FROM noted WHERE what = %s", what)
        return int(row["n"])

    def _stored(self) -> set[str]:
        return {f"{row['oid']}/{row['aid']}" for row in self._rows("SELECT oid, aid FROM news.article")}

    def _rows(self, query: str | sql.Composed, *parameters: object) -> list[dict[str, Any]]:
        return database.rows(self._at.database_url, query, parameters)
