"""Something in every queue, a gate that is shut, an alarm, a heartbeat, money: all that a door can tell."""

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from pymongo import MongoClient

from assets.recipes import batch_store, job_store
from tests.integration.economy_news.factories import an_article

# Since when each waits: 60, 20, 30 and 10 minutes; a batch for 27 hours; a heartbeat was heard a day ago.
_FILL = """
INSERT INTO news.ai_job
    (article_id, job_type, prompt_version, model, input_hash, day, section, created_at, asked_at, status,
     attempt, claimed_by, lease_until, next_run_at, suspend_reason)
SELECT id, job_type, 'v1', 'gpt-4o-mini', job_type, day, section, granary.now(),
       granary.now() - interval '1 hour', status, 1, 'run', lease, due, reason
FROM news.article, (VALUES
    ('SUMMARY', 'PENDING', NULL, NULL, NULL),
    ('INSIGHT', 'SUCCESS', NULL, NULL, NULL),
    ('TERM_CARDS', 'RUNNING', granary.now() + interval '5 minutes', NULL, NULL),
    ('QUIZ_TERM', 'RETRY_WAIT', NULL, granary.now() + interval '5 minutes', NULL),
    ('QUIZ_CONTENT', 'SUSPENDED', NULL, NULL, 'QUOTA')) AS jobs (job_type, status, lease, due, reason);

INSERT INTO news.ai_batch (plan, job_type, day, prompt_version, model, jobs, queued_tokens, planned_at)
VALUES ('p', 'SUMMARY', '2026-11-24', 'v1', 'gpt-4o-mini', 7, 100, granary.now() - interval '27 hours');

INSERT INTO raw.partition (day, source, status, asked_at, due_at)
VALUES ('2026-01-30', 'kr/news', 'NEW', granary.now() - interval '20 minutes', granary.now());

INSERT INTO granary.context_request
    (context_id, user_id, record_id, text, text_hmac, requested_at, text_since)
VALUES (1, 1, 1, '글', 'h', granary.now() - interval '30 minutes', granary.now()),
       (2, 1, 1, NULL, 'h', granary.now() - interval '9 days', NULL);

INSERT INTO ai.context_ai_state (context_id, embedding_status, keyword_status)
VALUES (1, 'FAILED', 'PROCESSING'), (2, 'COMPLETED', 'PENDING');

INSERT INTO rec.visit_trigger (member_id, last_visited_at, trigger_at, created_at, updated_at)
VALUES (1, granary.now() - interval '1 day', granary.now() - interval '10 minutes', granary.now(),
        granary.now()),
       (2, granary.now(), granary.now() + interval '1 hour', granary.now(), granary.now());

INSERT INTO granary.spending_day VALUES (granary.today(), 0.5, 1.25), (granary.today() - 1, 9, 9);

INSERT INTO granary.api_gate
VALUES ('other', 'gpt-4o-mini', 'QUOTA', 'message', granary.now(), granary.now());

INSERT INTO granary.alert (cause, day, message, raised_at, cleared_at, delivered_at)
VALUES ('gate:gpt-4o-mini', granary.today(), 'm', granary.now(), NULL, NULL),
       ('gate:gpt-4o-mini', granary.today() - 1, 'm', granary.now(), NULL, NULL),
       ('run:x', granary.today(), 'm', granary.now(), granary.now(), NULL),
       ('heartbeat', granary.today(), 'm', granary.now(), granary.now(), NULL),
       ('heartbeat', granary.today() - 1, 'm', granary.now(), granary.now(),
        granary.now() - interval '1 day');
"""


def fill_queues(connection: psycopg.Connection, mongo_database: str) -> None:
    """Both databases are empty before; the gate that is shut is of another key."""
    an_article(connection)
    connection.execute(_FILL)
    with MongoClient[dict[str, Any]](os.environ["MONGODB_URI"], tz_aware=True) as client:
        db = client[mongo_database]
        job_store.ensure_indexes(db)
        batch_store.ensure_indexes(db)
        earlier = datetime.now(UTC) - timedelta(hours=2)
        long_ago = {"source": "s", "fetched_at": earlier, "parse_retrieved_at": earlier}
        db[job_store.JOBS].insert_many(
            {"_id": status, "source_id": status, "status": status, **long_ago}
            for status in ("fetched", "parse_retrieved", "failed", "embed_retrieved")
        )
        db[batch_store.BATCHES].insert_many(
            [
                {"_id": "open", "state": "submitted", "batch_id": "b1", "created_at": earlier},
                {"_id": "over", "state": "retrieved", "batch_id": "b2", "created_at": earlier},
            ]
        )
