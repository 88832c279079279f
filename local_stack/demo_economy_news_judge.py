"""Whether the demo's economy_news is right: the site knows what it published, the ledger what was asked."""

from collections.abc import Mapping
from datetime import date
from typing import Any

import psycopg

from local_stack.demo_economy_news_books import Books
from local_stack.demo_economy_news_faults import LEAST_CHARACTERS, Fault, Faults

_ENDS = """
SELECT job.status, job.error_code, summary.unsupported_numbers
FROM news.article AS article JOIN news.newest_job AS job ON job.article_id = article.id
LEFT JOIN news.ai_result AS result ON result.job_id = job.id
LEFT JOIN news.summary AS summary ON summary.result_id = result.id
WHERE article.oid = %s AND article.aid = %s AND job.job_type = %s
"""
_STATUS_OF = {"gone": "GONE", "moved": "MOVED", "unreadable": "PARSE_FAILED"}


class Judge:
    """Compares what is stored with what the site published and the ledger booked."""

    def __init__(self, database_url: str, day: date, faults: Faults) -> None:
        self._database_url = database_url
        self._day = day
        self._faults = faults

    def claims(self, before: Books, after: Books) -> dict[str, bool]:
        """Each claim and whether it is true; only those that can be judged here."""
        claims = {"nothing waits": after.waiting == 0}
        if self._faults.published:
            claims |= self._page_claims(after)
            claims |= self._result_claims(after)
        claims |= {self._ends_so(fault): self._ended(fault) for fault in self._faults.planted}
        return {**claims, **self._ledger_claims(before, after)}

    def _page_claims(self, after: Books) -> dict[str, bool]:
        stored = {_ids(a): a for a in self._faults.published if a["expected"] == "stored"}
        missing = {_ids(a): a for a in self._faults.published if a["expected"] != "stored"}
        bodies = self._pairs("SELECT oid, aid, body FROM news.article WHERE day = %s")
        unstored = self._pairs(
            "SELECT oid, aid, status FROM news.listed_page WHERE day = %s AND status <> 'STORED'"
        )
        return {
            f"{len(stored)} articles that the site published are stored, each once": set(bodies)
            == set(stored),
            "every stored body is what the site published": all(
                _paragraphs(bodies.get(ids, "")) == _paragraphs(article["cleaned_body"])
                for ids, article in stored.items()
            ),
            f"{len(missing)} pages that are gone, moved or unreadable are recorded as such": unstored
            == {ids: _STATUS_OF[article["expected"]] for ids, article in missing.items()},
            f"{self._copies()} near-duplicates were found": after.duplicates == self._copies(),
        }

    def _result_claims(self, after: Books) -> dict[str, bool]:
        """Copies share the first one's results; what failed has none, and neither has what follows it."""
        articles = [a for a in self._faults.published if a["expected"] == "stored"]
        long_enough = sum(len(article["cleaned_body"]) >= LEAST_CHARACTERS for article in articles)
        expected = long_enough - self._copies()
        failing = [fault.job_type for fault in self._faults.planted if fault.ends == "FAILED"]
        summaries = expected - failing.count("SUMMARY")
        cards = summaries - failing.count("TERM_CARDS")
        found = (
            after.summaries,
            after.term_cards,
            after.insights,
            after.content_quizzes,
            after.term_quizzes,
        )
        wanted = (
            summaries,
            cards,
            summaries - failing.count("INSIGHT"),
            summaries - failing.count("QUIZ_CONTENT"),
            cards - failing.count("QUIZ_TERM"),
        )
        return {
            f"{expected} articles of {LEAST_CHARACTERS:,} characters or more have one result of each kind, "
            "but for those that failed": found == wanted,
            f"{len(failing)} jobs failed, as planted": after.failed == len(failing),
        }

    def _ledger_claims(self, before: Books, after: Books) -> dict[str, bool]:
        if after.calls is None or before.calls is None or after.charged_usd is None:
            return {}
        assert before.charged_usd is not None
        booked, charged = after.spent_usd - before.spent_usd, after.charged_usd - before.charged_usd
        claims = {"what was booked is what the provider charged": abs(booked - charged) < 1e-6}
        calls, added = after.calls - before.calls, after.results() - before.results()
        if before.results() == 0:
            extra = sum(fault.calls - (fault.ends == "SUCCESS") for fault in self._faults.planted)
            claims[f"each result was asked and paid once; {extra} more calls were planted"] = (
                calls == added + extra
            )
        elif not before.waiting:
            claims["what was done is not asked again"] = calls == added == 0
        return claims

    def _ends_so(self, fault: Fault) -> str:
        end = f"{fault.ends} ({fault.error_code})" if fault.error_code else fault.ends
        return f"article {'/'.join(_ids(fault.article))} meets {fault.what}: its {fault.job_type} ends {end}"

    def _ended(self, fault: Fault) -> bool:
        with psycopg.connect(self._database_url) as connection:
            row = connection.execute(_ENDS, (*_ids(fault.article), fault.job_type)).fetchone()
        if row is None:
            return False
        status, error_code, unsupported = row
        is_marked = bool(unsupported) == fault.marks_unpublishable
        return (status, error_code) == (fault.ends, fault.error_code) and is_marked

    def _copies(self) -> int:
        groups = [a["duplicate_group"] for a in self._faults.published if a["duplicate_group"] is not None]
        return len(groups) - len(set(groups))

    def _pairs(self, statement: Any) -> dict[tuple[str, str], str]:
        with psycopg.connect(self._database_url) as connection:
            return {(oid, aid): value for oid, aid, value in connection.execute(statement, (self._day,))}


def _ids(article: Mapping[str, Any]) -> tuple[str, str]:
    return article["oid"], article["aid"]


def _paragraphs(body: str) -> list[str]:
    return [line for line in body.split("\n") if line]
