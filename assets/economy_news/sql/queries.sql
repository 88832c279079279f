-- Statements of economy_news. Every time is granary.now(), the database's clock (a session may move it).

-- name: days
-- The running day in Asia/Seoul, and the first that the live crawl still reads: until 00:15 yesterday.
SELECT granary.today(), ((granary.now() - interval '15 minutes') AT TIME ZONE 'Asia/Seoul')::date;

-- name: known_pages
-- Which of these links the section's lists have shown before.
SELECT oid, aid FROM news.listed_page
WHERE section = %(section)s AND (oid, aid) IN (SELECT * FROM unnest(%(oids)s::text[], %(aids)s::text[]));

-- name: list_pages
-- Remembers what a list showed, all pages of one pass in one transaction: a pass that dies half-way
-- has then remembered all of it or nothing.
INSERT INTO news.listed_page (oid, aid, section, day, position, listed_at)
SELECT oid, aid, %(section)s, %(day)s, position, granary.now()
FROM unnest(%(oids)s::text[], %(aids)s::text[]) WITH ORDINALITY AS listed (oid, aid, position)
ON CONFLICT (oid, aid, section) DO NOTHING;

-- name: pages_to_fetch
-- What a pass may fetch: never looked at; unreadable, on three later passes; or a failed fetch, ever
-- more seldom (after n² minutes), twelve times. In the order of the list, and pages that were tried
-- before after those that were not: three failures in a row end a pass.
SELECT oid, aid, passes FROM news.listed_page
WHERE day = %(day)s AND section = %(section)s
  AND status IN ('LISTED', 'PARSE_FAILED', 'FETCH_FAILED')
  AND (status = 'LISTED'
       OR (status = 'PARSE_FAILED' AND passes <= 3)
       OR (status = 'FETCH_FAILED' AND passes < 12
           AND looked_at + make_interval(mins => passes * passes) <= granary.now()))
ORDER BY passes, listed_at, position;

-- name: settle_page
-- What became of a listed link. A link that was stored stays stored.
UPDATE news.listed_page
SET status = %(status)s, reason = %(reason)s, passes = passes + 1, looked_at = granary.now()
WHERE oid = %(oid)s AND aid = %(aid)s AND section = %(section)s AND status <> 'STORED';

-- name: days_with_pages_waiting
-- Days before today that still have links to fetch, so that a run for them is worth its start.
SELECT day, array_agg(DISTINCT section) FROM news.listed_page
WHERE day < granary.today()
  AND status IN ('LISTED', 'PARSE_FAILED', 'FETCH_FAILED')
  AND (status = 'LISTED'
       OR (status = 'PARSE_FAILED' AND passes <= 3)
       OR (status = 'FETCH_FAILED' AND passes < 12
           AND looked_at + make_interval(mins => passes * passes) <= granary.now()))
GROUP BY day ORDER BY day DESC LIMIT %(limit)s;

-- name: lock_day
-- One store at a time per day: near-duplicates are found exactly, and ids rise in commit order.
SELECT pg_advisory_xact_lock(hashtext('news.article.day'), %(day)s::date - date '2000-01-01');

-- name: originals_after
-- Signatures of the day's articles that are no duplicates, newer than an id.
SELECT id, similarity_signature FROM news.article
WHERE day = %(day)s AND id > %(after)s AND duplicate_of IS NULL ORDER BY id;

-- name: stored_article
SELECT id FROM news.article WHERE oid = %(oid)s AND aid = %(aid)s;

-- name: insert_article
-- Nothing comes back where another crawl stored it first.
INSERT INTO news.article
    (oid, aid, day, section, url, title, body, body_characters, input_hash, published_at, modified_at, press,
     reporter, thumbnail_url, similarity_signature, duplicate_of, crawl_permission, run_id, stored_at)
VALUES (%(oid)s, %(aid)s, %(day)s, %(section)s, %(url)s, %(title)s, %(body)s, %(body_characters)s,
        %(input_hash)s, %(published_at)s, %(modified_at)s, %(press)s, %(reporter)s, %(thumbnail_url)s,
        %(similarity_signature)s, (SELECT id FROM news.article WHERE id = %(duplicate_of)s),
        %(crawl_permission)s, %(run_id)s, granary.now())
ON CONFLICT ON CONSTRAINT article_is_stored_once DO NOTHING
RETURNING id;

-- name: add_section
INSERT INTO news.article_section (article_id, section) VALUES (%(article_id)s, %(section)s)
ON CONFLICT DO NOTHING;

-- name: add_summary_job
-- The live path makes a job only where the article has none of that type, and, with SKIP_DUPLICATES,
-- none where the first of its near-duplicates has one to share.
INSERT INTO news.ai_job (article_id, job_type, prompt_version, model, input_hash, day, section, created_at)
SELECT article.id, 'SUMMARY', %(prompt_version)s, %(model)s, article.input_hash, article.day, article.section,
       granary.now()
FROM news.article AS article
WHERE article.id = %(article_id)s
  AND NOT EXISTS (SELECT FROM news.ai_job WHERE article_id = article.id AND job_type = 'SUMMARY')
  AND NOT (%(skip_duplicates)s AND EXISTS (
      SELECT FROM news.ai_job WHERE article_id = article.duplicate_of AND job_type = 'SUMMARY'))
ON CONFLICT ON CONSTRAINT ai_job_is_asked_once DO NOTHING
RETURNING id;

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
-- gate is shut, except one job for the holder of its probe. The prompt and model of now are written
-- down, since it is they that will be asked.
WITH claimable AS (
    SELECT job.id, job.status
    FROM news.ai_job AS job
    JOIN unnest(%(days)s::date[], %(sections)s::text[]) AS wanted (day, section)
      ON wanted.day = job.day AND wanted.section = job.section
    WHERE job.job_type = %(job_type)s
      AND job.status IN ('PENDING', 'RETRY_WAIT', 'RUNNING')
      AND (job.status = 'PENDING'
           OR (job.status = 'RETRY_WAIT' AND job.next_run_at <= granary.now())
           OR (job.status = 'RUNNING' AND job.lease_until < granary.now()))
      AND (%(is_probe)s OR NOT EXISTS (
          SELECT FROM granary.api_gate AS gate
          WHERE gate.provider_key = %(provider_key)s AND gate.model = %(model)s
            AND NOT (gate.reason = 'BUDGET' AND gate.next_probe_at <= granary.now())))
    ORDER BY job.id
    LIMIT %(limit)s
    FOR UPDATE OF job SKIP LOCKED
), claimed AS (
    UPDATE news.ai_job AS job
    SET status = 'RUNNING', claimed_by = %(run_id)s, attempt = job.attempt + 1, next_run_at = NULL,
        lease_until = granary.now() + make_interval(secs => %(lease_seconds)s),
        prompt_version = %(prompt_version)s, model = %(model)s
    FROM claimable WHERE job.id = claimable.id
    RETURNING job.id, job.claimed_by, job.attempt, job.article_id, job.day, job.section,
              claimable.status = 'RUNNING' AS lease_was_lost
)
SELECT claimed.id AS job_id, claimed.claimed_by AS run_id, claimed.attempt, claimed.article_id, claimed.day,
       claimed.section, article.title, article.body AS text, claimed.lease_was_lost
FROM claimed JOIN news.article AS article ON article.id = claimed.article_id
ORDER BY claimed.id;

-- name: expire_leases_of_run
-- A step that is tried again in the same run takes back what its earlier try had claimed.
UPDATE news.ai_job SET lease_until = granary.now() - interval '1 second'
WHERE claimed_by = %(run_id)s AND job_type = %(job_type)s AND status = 'RUNNING';

-- name: renew_leases
UPDATE news.ai_job SET lease_until = granary.now() + make_interval(secs => %(lease_seconds)s)
WHERE id = ANY(%(job_ids)s) AND status = 'RUNNING' AND claimed_by = %(run_id)s
RETURNING id;

-- name: release_claim
-- A claim that was never asked goes back as it was.
UPDATE news.ai_job SET status = 'PENDING', lease_until = NULL, attempt = attempt - 1
WHERE id = %(job_id)s AND status = 'RUNNING' AND claimed_by = %(run_id)s AND attempt = %(attempt)s
RETURNING id;

-- name: free_jobs_of_run
-- A run that ended left these behind; they are tried again sooner than their lease runs out.
UPDATE news.ai_job
SET status = 'RETRY_WAIT', lease_until = NULL, next_run_at = granary.now() + make_interval(secs => %(delay_seconds)s),
    error_code = 'run_ended', error_message = 'its run ended before it was settled'
WHERE claimed_by = %(run_id)s AND status = 'RUNNING'
RETURNING id;

-- name: finish_summary
-- The result, the job's success and the check of the token are one statement: no row, no summary.
WITH finished AS (
    UPDATE news.ai_job
    SET status = 'SUCCESS', lease_until = NULL, error_code = NULL, error_message = NULL,
        settled_at = granary.now()
    WHERE id = %(job_id)s AND status = 'RUNNING' AND claimed_by = %(run_id)s AND attempt = %(attempt)s
    RETURNING id, article_id, prompt_version, model, claimed_by
)
INSERT INTO news.summary
    (article_id, job_id, summary3, summary_full, original_url, model, prompt_version, input_tokens,
     cached_tokens, output_tokens, cost_usd, run_id, created_at)
SELECT finished.article_id, finished.id, %(summary3)s, %(summary_full)s, article.url, finished.model,
       finished.prompt_version, %(input_tokens)s, %(cached_tokens)s, %(output_tokens)s, %(cost_usd)s,
       finished.claimed_by, granary.now()
FROM finished JOIN news.article AS article ON article.id = finished.article_id
RETURNING id;

-- name: finish_failure
UPDATE news.ai_job
SET status = %(status)s, lease_until = NULL, error_code = %(error_code)s, error_message = %(error_message)s,
    suspend_reason = %(suspend_reason)s,
    next_run_at = CASE WHEN %(status)s = 'RETRY_WAIT'
                       THEN granary.now() + make_interval(secs => %(delay_seconds)s) END,
    settled_at = CASE WHEN %(status)s = 'FAILED' THEN granary.now() END
WHERE id = %(job_id)s AND status = 'RUNNING' AND claimed_by = %(run_id)s AND attempt = %(attempt)s
  AND %(status)s IN ('RETRY_WAIT', 'SUSPENDED', 'FAILED')
RETURNING id;

-- name: due_jobs_by_partition
-- Where a run would find something to do now.
SELECT day, section, count(*) AS jobs FROM news.ai_job
WHERE status IN ('PENDING', 'RETRY_WAIT', 'RUNNING')
  AND (status = 'PENDING'
       OR (status = 'RETRY_WAIT' AND next_run_at <= granary.now())
       OR (status = 'RUNNING' AND lease_until < granary.now()))
GROUP BY day, section ORDER BY day DESC, section LIMIT %(limit)s;

-- name: jobs_by_partition
-- A job of an article whose newest success is not of today's prompt and model is outdated.
SELECT wanted.day, wanted.section,
       count(*) FILTER (WHERE job.status = 'SUCCESS') AS done,
       count(*) FILTER (WHERE job.status IN ('PENDING', 'RUNNING', 'SUBMITTED', 'RETRY_WAIT')) AS waiting,
       count(*) FILTER (WHERE job.status = 'FAILED') AS failed,
       count(*) FILTER (WHERE job.status = 'SUSPENDED') AS suspended,
       count(*) FILTER (WHERE job.status = 'SUCCESS' AND (job.prompt_version, job.model)
                        IS DISTINCT FROM (%(prompt_version)s::text, %(model)s::text)) AS outdated
FROM unnest(%(days)s::date[], %(sections)s::text[]) AS wanted (day, section)
LEFT JOIN news.ai_job AS job
  ON job.day = wanted.day AND job.section = wanted.section AND job.job_type = %(job_type)s
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
SELECT job.article_id, job.job_type, job.status,
       coalesce(job.suspend_reason || ': ', '') || coalesce(job.error_code, '') AS reason, job.next_run_at
FROM news.ai_job AS job
JOIN unnest(%(days)s::date[], %(sections)s::text[]) AS wanted (day, section)
  ON wanted.day = job.day AND wanted.section = job.section
WHERE job.status IN ('FAILED', 'SUSPENDED', 'RETRY_WAIT')
ORDER BY job.settled_at DESC NULLS LAST, job.id LIMIT %(limit)s;

-- name: claims_of_run
-- How many jobs the run claimed, and how many of them it settled (SUCCESS or FAILED).
SELECT count(*), count(*) FILTER (WHERE status IN ('SUCCESS', 'FAILED'))
FROM news.ai_job WHERE claimed_by = %(run_id)s;

-- name: articles_by_partition
SELECT wanted.day, wanted.section, count(article.id) AS articles,
       count(article.id) FILTER (WHERE article.duplicate_of IS NOT NULL) AS duplicates,
       count(article.id) FILTER (WHERE article.published_at IS NULL) AS without_date
FROM unnest(%(days)s::date[], %(sections)s::text[]) AS wanted (day, section)
LEFT JOIN news.article AS article ON article.day = wanted.day AND article.section = wanted.section
GROUP BY wanted.day, wanted.section;

-- name: pages_by_partition
SELECT wanted.day, wanted.section,
       count(page.oid) FILTER (WHERE page.status IN ('LISTED', 'FETCH_FAILED')) AS waiting,
       count(page.oid) FILTER (WHERE page.status = 'PARSE_FAILED') AS unreadable
FROM unnest(%(days)s::date[], %(sections)s::text[]) AS wanted (day, section)
LEFT JOIN news.listed_page AS page ON page.day = wanted.day AND page.section = wanted.section
GROUP BY wanted.day, wanted.section;
