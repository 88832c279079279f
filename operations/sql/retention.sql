-- What the tables of all pipelines lose with time. What keeps something from being done twice is never among it.
-- Each statement is one portion and its own transaction. Rows that somebody holds are left to the next day, and
-- the condition stands in the statement that deletes, so that live work and this never wait for each other.

-- name: context_requests
-- Only of a context that is over: the state then refuses it, whatever is posted again. While a stage is not, the
-- row's hash is what another text under its id is refused by. And not where the row is all that tells whose the
-- context's keywords are: an erasure would not find them.
WITH gone AS MATERIALIZED (
    SELECT request.context_id
    FROM granary.context_request AS request
    LEFT JOIN ai.context_ai_state AS state ON state.context_id = request.context_id
    WHERE request.requested_at < granary.now() - make_interval(days => %(days)s)
      AND request.handled_at >= request.requested_at
      AND request.handled_at < granary.now() - make_interval(days => %(days)s)
      AND request.text IS NULL
      AND (state.context_id IS NULL
           OR state.embedding_status IN ('COMPLETED', 'FAILED', 'CANCELLED')
              AND state.keyword_status IN ('COMPLETED', 'FAILED', 'CANCELLED'))
      AND (EXISTS (SELECT FROM ai.context_embedding AS embedded
                   WHERE embedded.context_id = request.context_id AND embedded.user_id = request.user_id)
           OR NOT EXISTS (SELECT FROM ai.context_keyword AS keyword
                          WHERE keyword.context_id = request.context_id)
              AND NOT EXISTS (SELECT FROM ai.context_keyword_analysis AS analysis
                              WHERE analysis.context_id = request.context_id))
    ORDER BY request.requested_at LIMIT %(limit)s
    FOR UPDATE OF request SKIP LOCKED
)
DELETE FROM granary.context_request AS request USING gone WHERE request.context_id = gone.context_id;

-- name: member_visits
WITH gone AS MATERIALIZED (
    SELECT id FROM rec.member_visit
    WHERE consumed_at < granary.now() - make_interval(days => %(days)s)
    ORDER BY id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
DELETE FROM rec.member_visit AS visit USING gone WHERE visit.id = gone.id;

-- name: queue_items
-- The first of each visit stays: a visit that comes once more, when its trigger is gone, makes a trigger that is
-- due at that offset, and this row is all that refuses it. So does the one that a member's products come from.
WITH seen AS MATERIALIZED (
    SELECT id FROM rec.queue_item
    WHERE id > %(after)s AND queued_at < granary.now() - make_interval(days => %(days)s)
    ORDER BY id LIMIT %(limit)s
), gone AS MATERIALIZED (
    SELECT item.id
    FROM rec.queue_item AS item JOIN seen ON seen.id = item.id
    WHERE item.finished_at < granary.now() - make_interval(days => %(days)s)
      AND EXISTS (SELECT FROM rec.queue_item AS first
                  WHERE first.member_id = item.member_id AND first.last_visited_at = item.last_visited_at
                    AND first.due_offset < item.due_offset)
      AND NOT EXISTS (SELECT FROM rec.recommended_product AS product
                      WHERE product.member_id = item.member_id AND product.queue_item_id = item.id)
    FOR UPDATE OF item SKIP LOCKED
), deleted AS (
    DELETE FROM rec.queue_item AS item USING gone WHERE item.id = gone.id RETURNING item.id
)
SELECT (SELECT count(*) FROM deleted), (SELECT max(id) FROM seen);

-- name: raw_requests
WITH gone AS MATERIALIZED (
    SELECT id FROM raw.request
    WHERE started_at < granary.now() - make_interval(days => %(days)s)
    ORDER BY id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
DELETE FROM raw.request AS request USING gone WHERE request.id = gone.id;

-- name: raw_passes
-- Not the newest of its kind, which tells how late the next one is, and none that a report may still be made of:
-- reports are looked for over forty days.
WITH gone AS MATERIALIZED (
    SELECT id FROM raw.pass
    WHERE scheduled_at < granary.now() - make_interval(days => greatest(%(days)s, 60))
      AND (scanned_at IS NOT NULL OR due_at IS NULL)
      AND EXISTS (SELECT FROM raw.pass AS later
                  WHERE later.kind = pass.kind AND later.scheduled_at > pass.scheduled_at)
    ORDER BY id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
DELETE FROM raw.pass AS pass USING gone WHERE pass.id = gone.id;

-- name: raw_failures
-- A run's row keeps its end from being counted twice; Dagster tells an end again within minutes.
WITH gone AS MATERIALIZED (
    SELECT id FROM raw.failure_log
    WHERE timestamp < granary.now() - make_interval(days => greatest(%(days)s, 60))
    ORDER BY id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
DELETE FROM raw.failure_log AS told USING gone WHERE told.id = gone.id;

-- name: alerts
-- Cleared ones; and of one that stands, or of the heartbeat, all days but the newest.
WITH gone AS MATERIALIZED (
    SELECT cause, day FROM granary.alert
    WHERE day < granary.today() - %(days)s
      AND (cleared_at < granary.now() - make_interval(days => %(days)s) AND cause <> 'heartbeat'
           OR EXISTS (SELECT FROM granary.alert AS later
                      WHERE later.cause = alert.cause AND later.day > alert.day
                        AND (later.cleared_at IS NULL OR later.cause = 'heartbeat')))
    ORDER BY day, cause LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
DELETE FROM granary.alert AS alert USING gone WHERE alert.cause = gone.cause AND alert.day = gone.day;

-- name: batch_reservations
-- Settled: a second settlement finds no row and books nothing, as it finds a settled one now.
WITH gone AS MATERIALIZED (
    SELECT intent FROM granary.batch_reservation
    WHERE settled_at < granary.now() - make_interval(days => %(days)s)
    ORDER BY settled_at LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
DELETE FROM granary.batch_reservation AS reservation USING gone WHERE reservation.intent = gone.intent;

-- name: news_results
-- Results that a newer one of the article has taken the place of, wherever their job stands. Not the first card
-- that gives a term its definition in the dictionary: a takedown of that card's article has to find it. Where no
-- card gives it any more, the first of all. To be called with the cards locked (`lock_term_cards`).
WITH seen AS MATERIALIZED (
    SELECT id FROM news.ai_result
    WHERE id > %(after)s AND created_at < granary.now() - make_interval(days => %(days)s)
    ORDER BY id LIMIT %(limit)s
), gone AS MATERIALIZED (
    SELECT result.id
    FROM news.ai_result AS result JOIN seen ON seen.id = result.id
    WHERE EXISTS (SELECT FROM news.ai_result AS newer
                  WHERE newer.article_id = result.article_id AND newer.job_type = result.job_type
                    AND (newer.asked_at, newer.job_id) > (result.asked_at, result.job_id))
      AND NOT EXISTS (SELECT FROM news.term_card AS card JOIN news.term ON term.id = card.term_id
                      WHERE card.result_id = result.id
                        AND NOT EXISTS (
                            SELECT FROM news.term_card AS other
                            WHERE other.term_id = card.term_id
                              AND (other.definition <> term.definition, other.result_id)
                                  < (card.definition <> term.definition, card.result_id)))
    FOR UPDATE OF result SKIP LOCKED
), deleted AS (
    DELETE FROM news.ai_result AS result USING gone WHERE result.id = gone.id RETURNING result.id
)
SELECT (SELECT count(*) FROM deleted), (SELECT max(id) FROM seen);

-- name: news_jobs
-- Ended jobs that are not the one that counts for their article, once no result of theirs is left. The newest
-- stays whatever became of it: it is what keeps the live path from making another.
WITH seen AS MATERIALIZED (
    SELECT id FROM news.ai_job
    WHERE id > %(after)s AND asked_at < granary.now() - make_interval(days => %(days)s)
    ORDER BY id LIMIT %(limit)s
), gone AS MATERIALIZED (
    SELECT job.id
    FROM news.ai_job AS job JOIN seen ON seen.id = job.id
    WHERE job.status IN ('SUCCESS', 'FAILED', 'SUSPENDED')
      AND job.asked_at < granary.now() - make_interval(days => %(days)s)
      AND coalesce(job.settled_at, job.asked_at) < granary.now() - make_interval(days => %(days)s)
      AND EXISTS (SELECT FROM news.ai_job AS newer
                  WHERE newer.article_id = job.article_id AND newer.job_type = job.job_type
                    AND (newer.asked_at, newer.id) > (job.asked_at, job.id))
      AND NOT EXISTS (SELECT FROM news.ai_result AS result WHERE result.job_id = job.id)
    FOR UPDATE OF job SKIP LOCKED
), deleted AS (
    DELETE FROM news.ai_job AS job USING gone WHERE job.id = gone.id RETURNING job.id
)
SELECT (SELECT count(*) FROM deleted), (SELECT max(id) FROM seen);

-- name: news_batches
-- Without a file that is still to be deleted at the provider; a job names the last batch that it was in.
WITH gone AS MATERIALIZED (
    SELECT plan FROM news.ai_batch AS batch
    WHERE ended_at < granary.now() - make_interval(days => %(days)s) AND cardinality(files_left) = 0
      AND NOT EXISTS (SELECT FROM news.ai_job AS job WHERE job.batch_plan = batch.plan)
    ORDER BY planned_at LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
DELETE FROM news.ai_batch AS batch USING gone WHERE batch.plan = gone.plan;
