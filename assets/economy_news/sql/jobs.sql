-- AI jobs and their results. Every time is granary.now(), the database's clock (a session may move it).

-- name: add_summary_job
-- The live path makes a job only where the article has none of that type, and, with SKIP_DUPLICATES,
-- none where the first of its near-duplicates has one to share.
INSERT INTO news.ai_job
    (article_id, job_type, prompt_version, model, input_hash, mode, day, section, created_at, asked_at)
SELECT article.id, 'SUMMARY', %(prompt_version)s, %(model)s, article.input_hash, %(mode)s, article.day,
       article.section, granary.now(), granary.now()
FROM news.article AS article
WHERE article.id = %(article_id)s AND article.body_emptied_at IS NULL
  AND %(min_characters)s > 0 AND article.body_characters >= %(min_characters)s
  AND NOT EXISTS (SELECT FROM news.ai_job WHERE article_id = article.id AND job_type = 'SUMMARY')
  AND NOT (%(skip_duplicates)s AND EXISTS (
      SELECT FROM news.ai_job WHERE article_id = article.duplicate_of AND job_type = 'SUMMARY'))
ON CONFLICT ON CONSTRAINT ai_job_is_asked_once DO NOTHING
RETURNING id;

-- name: drop_superseded_jobs
-- What waits, or was suspended, to be made from a result that has a successor now; it would be made from the
-- successor anyway, and nobody could resume it. One that was asked for once more keeps the result that it has,
-- which readers see until the successor's: it is a success again.
WITH superseded AS MATERIALIZED (
    SELECT job.id, EXISTS (SELECT FROM news.ai_result WHERE job_id = job.id) AS has_result
    FROM news.ai_job AS job
    JOIN jsonb_to_recordset(%(parents)s) AS parent (article_id bigint, output_hash text) USING (article_id)
    WHERE job.job_type = ANY(%(job_types)s) AND job.status IN ('PENDING', 'RETRY_WAIT', 'SUSPENDED')
      AND job.input_hash <> parent.output_hash
    ORDER BY job.id
    FOR UPDATE OF job
), kept AS (
    UPDATE news.ai_job AS job
    SET status = 'SUCCESS', next_run_at = NULL, suspend_reason = NULL, error_code = NULL, error_message = NULL,
        settled_at = granary.now()
    FROM superseded WHERE superseded.id = job.id AND superseded.has_result
)
DELETE FROM news.ai_job AS job USING superseded WHERE superseded.id = job.id AND NOT superseded.has_result;

-- name: add_following_jobs
-- The jobs that a result makes possible, in the transaction that stores it; they are asked as it was.
INSERT INTO news.ai_job
    (article_id, job_type, prompt_version, model, input_hash, mode, day, section, created_at, asked_at)
SELECT article.id, following.job_type, following.prompt_version, %(model)s, parent.output_hash, %(mode)s,
       article.day, article.section, granary.now(), granary.now()
FROM jsonb_to_recordset(%(parents)s) AS parent (article_id bigint, output_hash text)
JOIN news.article AS article ON article.id = parent.article_id
CROSS JOIN unnest(%(job_types)s::text[], %(prompt_versions)s::text[]) AS following (job_type, prompt_version)
ON CONFLICT ON CONSTRAINT ai_job_is_asked_once DO NOTHING
RETURNING job_type;

-- name: redo_results
-- Asks again for what is outdated (or for everything) of one type, where nothing is under way and this run
-- (or the one that it tries again) has not just done it. A job that asks the same question as before is the same row, asked once more.
-- What waits for the result that it is made from is left alone: it comes with that, and would be paid twice.
INSERT INTO news.ai_job
    (article_id, job_type, prompt_version, model, input_hash, mode, day, section, created_at, asked_at)
SELECT article.id, input.job_type, %(prompt_version)s, %(model)s, input.input_hash_now, %(mode)s, article.day,
       article.section, granary.now(), granary.now()
FROM unnest(%(days)s::date[], %(sections)s::text[]) AS wanted (day, section)
JOIN news.article AS article ON article.day = wanted.day AND article.section = wanted.section
CROSS JOIN LATERAL news.job_that_counts(article.id, %(job_type)s) AS job
CROSS JOIN LATERAL news.result_and_input(article.id, %(job_type)s) AS input
WHERE job.status = 'SUCCESS' AND NOT job.claimed_by = ANY(%(run_ids)s)
  AND (input.job_type <> 'SUMMARY' OR article.body_emptied_at IS NULL)
  AND (%(everything)s OR (input.prompt_version, input.model, input.input_hash)
                         IS DISTINCT FROM (%(prompt_version)s, %(model)s, input.input_hash_now))
  AND NOT EXISTS (
      SELECT FROM unnest(CASE input.job_type WHEN 'SUMMARY' THEN '{}'
                                             WHEN 'QUIZ_TERM' THEN '{SUMMARY,TERM_CARDS}'
                                             ELSE '{SUMMARY}' END::text[]) AS earlier (job_type)
      CROSS JOIN LATERAL news.job_that_counts(article.id, earlier.job_type) AS source
      WHERE source.status IN ('PENDING', 'RUNNING', 'SUBMITTED', 'RETRY_WAIT'))
ON CONFLICT ON CONSTRAINT ai_job_is_asked_once DO UPDATE
SET status = 'PENDING', attempt = 0, mode = excluded.mode, redo_number = ai_job.redo_number + 1, asked_at = granary.now(),
    settled_at = NULL
WHERE ai_job.status = 'SUCCESS'
RETURNING id;

-- name: set_mode
-- What is under way stays as it was asked.
UPDATE news.ai_job AS job SET mode = %(mode)s
FROM unnest(%(days)s::date[], %(sections)s::text[]) AS wanted (day, section)
WHERE job.day = wanted.day AND job.section = wanted.section AND job.job_type = %(job_type)s
  AND job.status IN ('PENDING', 'RETRY_WAIT') AND job.mode <> %(mode)s
RETURNING job.id;

-- name: fail_spent_leases
-- A job whose lease ran out, or whose run ended, in its last attempt has no attempt left.
UPDATE news.ai_job
SET status = 'FAILED', lease_until = NULL, next_run_at = NULL, error_code = 'lease_lost',
    settled_at = granary.now(), error_message = 'its run died, and no attempt was left'
WHERE job_type = %(job_type)s AND attempt > %(most_retries)s
  AND (status = 'RUNNING' AND lease_until < granary.now()
       OR status = 'RETRY_WAIT' AND error_code = 'run_ended')
RETURNING id;

-- name: claim_jobs
-- Leases what is pending, what is due, and what lost its lease, in one statement; nothing while the
-- gate is shut, except one job for the holder of its probe. A summary whose body was emptied is not asked
-- for. The text is what the job's kind reads. What waits for a batch is not taken.
-- Partition by partition, in the order in which ai_job_waiting has them: so it reads about as many jobs as it
-- takes, where a join would read and sort all that wait.
WITH claimable AS (
    SELECT job.id, job.status
    FROM unnest(%(days)s::date[], %(sections)s::text[]) AS wanted (day, section)
    CROSS JOIN LATERAL (
        SELECT waiting.id, waiting.status
        FROM news.ai_job AS waiting
        WHERE waiting.job_type = %(job_type)s AND waiting.day = wanted.day AND waiting.section = wanted.section
          AND waiting.status IN ('PENDING', 'RETRY_WAIT', 'RUNNING') AND waiting.mode = 'live'
          AND (waiting.status = 'PENDING'
               OR (waiting.status = 'RETRY_WAIT' AND waiting.next_run_at <= granary.now())
               OR (waiting.status = 'RUNNING' AND waiting.lease_until < granary.now()))
          AND NOT EXISTS (SELECT FROM news.article AS article
                          WHERE article.id = waiting.article_id AND waiting.job_type = 'SUMMARY'
                            AND article.body_emptied_at IS NOT NULL)
        ORDER BY waiting.job_type, waiting.day, waiting.section, waiting.id
        LIMIT %(limit)s
        FOR UPDATE OF waiting SKIP LOCKED
    ) AS job
    WHERE %(is_probe)s OR NOT EXISTS (
        SELECT FROM granary.api_gate AS gate
        WHERE gate.provider_key = %(provider_key)s AND gate.model = %(model)s
          AND NOT (gate.reason = 'BUDGET' AND gate.next_probe_at <= granary.now()))
    LIMIT %(limit)s
), claimed AS (
    UPDATE news.ai_job AS job
    SET status = 'RUNNING', claimed_by = %(run_id)s, attempt = job.attempt + 1, next_run_at = NULL,
        lease_until = granary.now() + make_interval(secs => %(lease_seconds)s)
    FROM claimable WHERE job.id = claimable.id
    RETURNING job.id, job.claimed_by, job.attempt, job.article_id, job.day, job.section, job.job_type,
              claimable.status = 'RUNNING' AS lease_was_lost
)
SELECT claimed.id AS job_id, claimed.claimed_by AS run_id, claimed.attempt, claimed.article_id, claimed.day,
       claimed.section, article.title, asked.asked_text AS text, claimed.lease_was_lost
FROM claimed JOIN news.article AS article ON article.id = claimed.article_id
CROSS JOIN LATERAL news.text_asked_about(claimed.article_id, claimed.job_type) AS asked
ORDER BY claimed.id;

-- name: expire_leases_of_run
-- A step that is tried again in the same run takes back what its earlier try had claimed.
UPDATE news.ai_job SET lease_until = granary.now() - interval '1 second'
WHERE claimed_by = %(run_id)s AND job_type = %(job_type)s AND status = 'RUNNING';

-- name: renew_leases
UPDATE news.ai_job SET lease_until = granary.now() + make_interval(secs => %(lease_seconds)s)
WHERE id = ANY(%(job_ids)s) AND status = 'RUNNING' AND claimed_by = %(run_id)s
RETURNING id;

-- name: release_claims
-- Claims that were never asked go back as they were.
UPDATE news.ai_job AS job SET status = 'PENDING', lease_until = NULL, attempt = job.attempt - 1
FROM unnest(%(job_ids)s::bigint[], %(attempts)s::int[]) AS claim (job_id, attempt)
WHERE job.id = claim.job_id AND job.status = 'RUNNING' AND job.claimed_by = %(run_id)s
  AND job.attempt = claim.attempt
RETURNING job.id;

-- name: free_jobs_of_run
-- A run that ended left these behind; they are tried again sooner than their lease runs out.
UPDATE news.ai_job
SET status = 'RETRY_WAIT', lease_until = NULL, next_run_at = granary.now() + make_interval(secs => %(delay_seconds)s),
    error_code = 'run_ended', error_message = 'its run ended before it was settled'
WHERE claimed_by = %(run_id)s AND status = 'RUNNING'
RETURNING id;

-- name: free_batches_of_run
-- Those that the ended run was taking in. One that it had not sent is left to its lease: the provider may
-- still be making the batch.
UPDATE news.ai_batch SET claimed_by = NULL, lease_until = NULL
WHERE claimed_by = %(run_id)s AND status = 'SUBMITTED';

-- name: finish_successes
-- Success, the check of the token and the result's lineage are one statement: what is no longer ours
-- gets no result. The result tells what was asked in the end: prompt and model of this run, the text as it
-- was then. One statement for a batch: a finish of fifty costs little more than one. The token of a job in a batch is
-- that batch's plan, whichever run takes it in; claimed_by goes on naming the run that asked.
WITH finished AS (
    UPDATE news.ai_job AS job
    SET status = 'SUCCESS', lease_until = NULL, error_code = NULL, error_message = NULL,
        settled_at = granary.now()
    FROM jsonb_to_recordset(%(finishes)s) AS finish (
        job_id bigint, attempt int, input_tokens int, cached_tokens int, output_tokens int, cost_usd numeric,
        input_hash text, output_hash text, batch_plan text)
    WHERE job.id = finish.job_id AND job.attempt = finish.attempt
      AND (job.status = 'RUNNING' AND job.claimed_by = %(run_id)s AND finish.batch_plan IS NULL
           OR job.status = 'SUBMITTED' AND job.batch_plan = finish.batch_plan)
    RETURNING job.id, job.redo_number, job.article_id, job.job_type, job.asked_at,
              finish.input_tokens, finish.cached_tokens, finish.output_tokens, finish.cost_usd,
              finish.input_hash AS asked_hash, finish.output_hash
)
INSERT INTO news.ai_result
    (job_id, redo_number, article_id, job_type, model, prompt_version, input_hash, output_hash, input_tokens,
     cached_tokens, output_tokens, cost_usd, original_url, run_id, asked_at, created_at)
SELECT finished.id, finished.redo_number, finished.article_id, finished.job_type, %(model)s,
       %(prompt_version)s, finished.asked_hash, finished.output_hash, finished.input_tokens,
       finished.cached_tokens, finished.output_tokens, finished.cost_usd, article.url, %(run_id)s,
       finished.asked_at, granary.now()
FROM finished JOIN news.article AS article ON article.id = finished.article_id
RETURNING job_id, id;

-- name: add_summaries
INSERT INTO news.summary (result_id, article_id, summary3, summary_full, unsupported_numbers)
SELECT result_id, article_id, summary3, summary_full, unsupported_numbers
FROM jsonb_to_recordset(%(rows)s) AS given (
    result_id bigint, article_id bigint, summary3 text[], summary_full text, unsupported_numbers text[]);

-- name: add_term_cards
-- The dictionary keeps a term's first definition; the no-op update makes the row visible either way.
WITH given AS (
    SELECT * FROM jsonb_to_recordset(%(rows)s) AS given (
        result_id bigint, position smallint, article_id bigint, term_key text, term text, highlight_text text,
        definition text)
), dictionary AS (
    INSERT INTO news.term (term_key, term, definition, created_at)
    SELECT DISTINCT ON (term_key) term_key, term, definition, granary.now()
    FROM given ORDER BY term_key, result_id, position
    ON CONFLICT (term_key) DO UPDATE SET term_key = excluded.term_key
    RETURNING id, term_key
)
INSERT INTO news.term_card (result_id, position, article_id, term_id, term, highlight_text, definition)
SELECT given.result_id, given.position, given.article_id, dictionary.id, given.term, given.highlight_text,
       given.definition
FROM given JOIN dictionary USING (term_key);

-- name: add_insights
INSERT INTO news.insight (result_id, position, article_id, title, detail, why_it_matters)
SELECT result_id, position, article_id, title, detail, why_it_matters
FROM jsonb_to_recordset(%(rows)s) AS given (
    result_id bigint, position smallint, article_id bigint, title text, detail text, why_it_matters text);

-- name: add_quizzes
INSERT INTO news.quiz (result_id, position, article_id, kind, question, options, answer_index, explanations)
SELECT result_id, position, article_id, kind, question, options, answer_index, explanations
FROM jsonb_to_recordset(%(rows)s) AS given (
    result_id bigint, position smallint, article_id bigint, kind text, question text, options text[],
    answer_index smallint, explanations text[]);

-- name: lock_articles
-- Two runs that store the last results of one article must not both miss that it is complete.
SELECT id FROM news.article WHERE id = ANY(%(article_ids)s) ORDER BY id FOR NO KEY UPDATE;

-- name: complete_articles
UPDATE news.article AS article SET completed_at = granary.now()
WHERE article.id = ANY(%(article_ids)s) AND article.completed_at IS NULL
  AND (SELECT count(DISTINCT job_type) FROM news.ai_result WHERE article_id = article.id) = 5
RETURNING article.id;

-- name: finish_failures
UPDATE news.ai_job AS job
SET status = finish.status, lease_until = NULL, error_code = finish.error_code,
    error_message = finish.error_message, suspend_reason = finish.suspend_reason,
    next_run_at = CASE WHEN finish.status = 'RETRY_WAIT'
                       THEN granary.now() + make_interval(secs => finish.delay_seconds) END,
    settled_at = CASE WHEN finish.status = 'FAILED' THEN granary.now() END
FROM jsonb_to_recordset(%(finishes)s) AS finish (
    job_id bigint, attempt int, status text, error_code text, error_message text, suspend_reason text,
    delay_seconds double precision, batch_plan text)
WHERE job.id = finish.job_id AND job.attempt = finish.attempt
  AND (job.status = 'RUNNING' AND job.claimed_by = %(run_id)s AND finish.batch_plan IS NULL
       OR job.status = 'SUBMITTED' AND job.batch_plan = finish.batch_plan)
  AND finish.status IN ('RETRY_WAIT', 'SUSPENDED', 'FAILED')
RETURNING job.id;

-- name: resume_suspended
-- Back to the start, with all attempts; a job that was redone meanwhile is left where it is.
UPDATE news.ai_job AS job SET status = 'PENDING', attempt = 0, suspend_reason = NULL, error_code = NULL,
       error_message = NULL
WHERE job.status = 'SUSPENDED'
  AND job.id = (SELECT id FROM news.job_that_counts(job.article_id, job.job_type))
  AND (job.id = ANY(%(job_ids)s) OR job.suspend_reason = %(reason)s)
RETURNING job.id, job.model;

-- name: requeue_failed
UPDATE news.ai_job AS job SET status = 'PENDING', attempt = 0, error_code = NULL, error_message = NULL,
       settled_at = NULL
WHERE job.status = 'FAILED'
  AND job.id = (SELECT id FROM news.job_that_counts(job.article_id, job.job_type))
  AND NOT (job.job_type = 'SUMMARY' AND EXISTS (
      SELECT FROM news.article WHERE id = job.article_id AND body_emptied_at IS NOT NULL))
  AND (job.id = ANY(%(job_ids)s) OR job.error_code = %(error_code)s)
RETURNING job.id;

-- name: statuses
SELECT id, status FROM news.ai_job WHERE id = ANY(%(job_ids)s);

-- name: due_jobs_by_partition
-- Where a run would find something to do now; what waits for a batch counts where one could be sent. A summary whose
-- body was emptied while it was asked for is not taken by a claim, and waits for the daily clearing up to fail it.
SELECT day, section, count(*) AS jobs FROM news.ai_job
WHERE status IN ('PENDING', 'RETRY_WAIT', 'RUNNING') AND (mode = 'live' OR %(with_batches)s)
  AND (status = 'PENDING'
       OR (status = 'RETRY_WAIT' AND next_run_at <= granary.now())
       OR (status = 'RUNNING' AND lease_until < granary.now()))
  AND NOT (job_type = 'SUMMARY' AND EXISTS (
      SELECT FROM news.article WHERE id = ai_job.article_id AND body_emptied_at IS NOT NULL))
GROUP BY day, section ORDER BY day DESC, section LIMIT %(limit)s;

-- name: jobs_by_partition
-- An article counts once, by the job that counts for it. A result is outdated that another prompt or model
-- made, or that was made from an input that has changed since.
SELECT wanted.day, wanted.section,
       count(*) FILTER (WHERE job.status = 'SUCCESS') AS done,
       count(*) FILTER (WHERE job.status IN ('PENDING', 'RUNNING', 'SUBMITTED', 'RETRY_WAIT')) AS waiting,
       count(*) FILTER (WHERE job.status = 'SUBMITTED') AS submitted,
       count(*) FILTER (WHERE job.status = 'FAILED') AS failed,
       count(*) FILTER (WHERE job.status = 'SUSPENDED') AS suspended,
       count(*) FILTER (WHERE (input.prompt_version, input.model, input.input_hash)
                        IS DISTINCT FROM (%(prompt_version)s::text, %(model)s::text, input.input_hash_now)
                        AND input.result_id IS NOT NULL) AS outdated,
       coalesce(sum((SELECT sum(cost_usd) FROM news.ai_result AS paid
                     WHERE paid.article_id = article.id AND paid.job_type = %(job_type)s)), 0)::float AS cost_usd
FROM unnest(%(days)s::date[], %(sections)s::text[]) AS wanted (day, section)
LEFT JOIN news.article AS article ON article.day = wanted.day AND article.section = wanted.section
LEFT JOIN LATERAL news.job_that_counts(article.id, %(job_type)s) AS job ON true
LEFT JOIN LATERAL news.result_and_input(article.id, %(job_type)s) AS input ON true
GROUP BY wanted.day, wanted.section;

-- name: completeness_by_partition
-- An article counts once, by the worst of its jobs (news.article_ai).
SELECT wanted.day, wanted.section, count(state.article_id) AS articles,
       count(*) FILTER (WHERE state.state = 'DONE') AS done,
       count(*) FILTER (WHERE state.state = 'WAITING') AS waiting,
       count(*) FILTER (WHERE state.state = 'FAILED') AS failed,
       count(*) FILTER (WHERE state.state = 'SUSPENDED') AS suspended
FROM unnest(%(days)s::date[], %(sections)s::text[]) AS wanted (day, section)
LEFT JOIN news.article_ai AS state ON state.day = wanted.day AND state.section = wanted.section
GROUP BY wanted.day, wanted.section;

-- name: unsettled_items
-- Ids and reasons only; an article's text never leaves its table.
SELECT article.day, article.section, job.article_id, job.job_type, job.status,
       coalesce(job.suspend_reason || ': ', '') || coalesce(job.error_code, '') AS reason, job.next_run_at
FROM unnest(%(days)s::date[], %(sections)s::text[]) AS wanted (day, section)
JOIN news.article AS article ON article.day = wanted.day AND article.section = wanted.section
CROSS JOIN unnest(ARRAY['SUMMARY', 'TERM_CARDS', 'INSIGHT', 'QUIZ_CONTENT', 'QUIZ_TERM']) AS kind (job_type)
CROSS JOIN LATERAL news.job_that_counts(article.id, kind.job_type) AS job
WHERE job.status IN ('FAILED', 'SUSPENDED', 'RETRY_WAIT')
ORDER BY job.settled_at DESC NULLS LAST, job.id LIMIT %(limit)s;

-- name: unpublishable_summaries
SELECT article.id, summary.unsupported_numbers
FROM unnest(%(days)s::date[], %(sections)s::text[]) AS wanted (day, section)
JOIN news.article AS article ON article.day = wanted.day AND article.section = wanted.section
CROSS JOIN LATERAL news.result_and_input(article.id, 'SUMMARY') AS result
JOIN news.summary AS summary ON summary.result_id = result.result_id
WHERE NOT summary.publishable
ORDER BY article.id;

-- name: foreign_highlights
-- Cards with a highlight that is not in the summary they were made from, and articles whose cards were refused
-- for it twice. Cards that wait to be made again from a new summary are none of these.
SELECT article.id, 'stored' AS how
FROM unnest(%(days)s::date[], %(sections)s::text[]) AS wanted (day, section)
JOIN news.article AS article ON article.day = wanted.day AND article.section = wanted.section
CROSS JOIN LATERAL news.result_and_input(article.id, 'TERM_CARDS') AS cards
CROSS JOIN LATERAL news.result_and_input(article.id, 'SUMMARY') AS summarised
JOIN news.term_card AS card ON card.result_id = cards.result_id
JOIN news.summary AS summary ON summary.result_id = summarised.result_id
WHERE cards.input_hash = cards.input_hash_now AND position(card.highlight_text IN summary.summary_full) = 0
UNION
SELECT article.id, 'refused'
FROM unnest(%(days)s::date[], %(sections)s::text[]) AS wanted (day, section)
JOIN news.article AS article ON article.day = wanted.day AND article.section = wanted.section
CROSS JOIN LATERAL news.job_that_counts(article.id, 'TERM_CARDS') AS job
WHERE job.status = 'FAILED' AND job.error_code = 'highlight_not_in_summary'
ORDER BY 1;

-- name: claims_of_run
-- How many jobs the run claimed, and how many of them it settled (SUCCESS or FAILED) or has in a batch.
SELECT count(*), count(*) FILTER (WHERE status IN ('SUCCESS', 'FAILED', 'SUBMITTED'))
FROM news.ai_job WHERE claimed_by = %(run_id)s;

-- name: fail_jobs_without_body
-- The body was emptied before the summary could be made.
UPDATE news.ai_job AS job SET status = 'FAILED', next_run_at = NULL, suspend_reason = NULL,
       error_code = 'body_emptied', error_message = 'the body was emptied (ARTICLE_RETENTION_DAYS)',
       settled_at = granary.now()
FROM news.article AS article
WHERE article.id = job.article_id AND article.body_emptied_at IS NOT NULL AND job.job_type = 'SUMMARY'
  AND job.status IN ('PENDING', 'RETRY_WAIT', 'SUSPENDED')
RETURNING job.id;
