-- Batches of AI jobs, from their plan to the deletion of their files. Every time is granary.now().

-- name: lock_planning
-- What one run plans, the next must see: the room in the provider's queue is for all of them.
SELECT pg_advisory_xact_lock(hashtext('news.ai_batch'), hashtext(%(model)s));

-- name: days_to_plan
-- Days, newest first, with the sections that have jobs of the type waiting for a batch.
SELECT job.day, array_agg(DISTINCT job.section ORDER BY job.section)
FROM unnest(%(days)s::date[], %(sections)s::text[]) AS wanted (day, section)
JOIN news.ai_job AS job ON job.day = wanted.day AND job.section = wanted.section
WHERE job.job_type = %(job_type)s AND job.mode = 'batch' AND job.status IN ('PENDING', 'RETRY_WAIT')
  AND (job.status = 'PENDING' OR job.next_run_at <= granary.now())
GROUP BY job.day ORDER BY job.day DESC;

-- name: jobs_to_plan
-- Locked until the plan is made. Nothing while the gate is shut, except for the holder of its probe; no summary
-- of a body that was emptied.
WITH plannable AS (
    SELECT job.id, job.attempt, job.article_id, job.day, job.section, job.job_type
    FROM news.ai_job AS job
    WHERE job.job_type = %(job_type)s AND job.day = %(day)s AND job.section = ANY(%(sections)s)
      AND job.mode = 'batch' AND job.status IN ('PENDING', 'RETRY_WAIT') AND job.id > %(after)s
      AND (job.status = 'PENDING' OR job.next_run_at <= granary.now())
      AND NOT EXISTS (SELECT FROM news.article AS article
                      WHERE article.id = job.article_id AND job.job_type = 'SUMMARY'
                        AND article.body_emptied_at IS NOT NULL)
      AND (%(is_probe)s OR NOT EXISTS (
          SELECT FROM granary.api_gate AS gate
          WHERE gate.provider_key = %(provider_key)s AND gate.model = %(model)s
            AND NOT (gate.reason = 'BUDGET' AND gate.next_probe_at <= granary.now())))
    ORDER BY job.id
    LIMIT %(limit)s
    FOR UPDATE OF job SKIP LOCKED
)
SELECT plannable.id AS job_id, %(run_id)s AS run_id, plannable.attempt + 1 AS attempt, plannable.article_id,
       plannable.day, plannable.section, article.title,
       coalesce(asked.asked_text, '') AS text, false AS lease_was_lost, %(plan)s AS batch_plan
FROM plannable JOIN news.article AS article ON article.id = plannable.article_id
CROSS JOIN LATERAL news.text_asked_about(plannable.article_id, plannable.job_type) AS asked
ORDER BY plannable.id;

-- name: add_batch
INSERT INTO news.ai_batch
    (plan, job_type, day, prompt_version, model, jobs, queued_tokens, lines_sha256, claimed_by, lease_until,
     planned_at)
VALUES (%(plan)s, %(job_type)s, %(day)s, %(prompt_version)s, %(model)s, %(jobs)s, %(queued_tokens)s,
        %(lines_sha256)s, %(run_id)s, granary.now() + make_interval(secs => %(lease_seconds)s), granary.now());

-- name: submit_jobs
UPDATE news.ai_job AS job
SET status = 'SUBMITTED', attempt = job.attempt + 1, claimed_by = %(run_id)s, next_run_at = NULL,
    batch_plan = %(plan)s, batch_id = NULL, asked_hash = line.asked_hash
FROM unnest(%(job_ids)s::bigint[], %(asked_hashes)s::text[]) AS line (job_id, asked_hash)
WHERE job.id = line.job_id;

-- name: refuse_jobs
-- Jobs that no batch can take; they are locked by whoever found it out.
UPDATE news.ai_job AS job
SET status = 'FAILED', attempt = job.attempt + 1, claimed_by = %(run_id)s, next_run_at = NULL,
    error_code = %(error_code)s, error_message = %(error_message)s, settled_at = granary.now()
WHERE job.id = ANY(%(job_ids)s) AND job.status IN ('PENDING', 'RETRY_WAIT');

-- name: mark_uploaded
UPDATE news.ai_batch
SET input_file_id = %(file_id)s, lease_until = granary.now() + make_interval(secs => %(lease_seconds)s)
WHERE plan = %(plan)s AND claimed_by = %(run_id)s AND status = 'PLANNED'
RETURNING plan;

-- name: mark_submitted
UPDATE news.ai_batch
SET status = 'SUBMITTED', batch_id = %(batch_id)s, input_file_id = %(file_id)s, submitted_at = granary.now(),
    claimed_by = NULL, lease_until = NULL
WHERE plan = %(plan)s AND claimed_by = %(run_id)s AND status = 'PLANNED'
RETURNING plan;

-- name: name_batch
UPDATE news.ai_job SET batch_id = %(batch_id)s WHERE batch_plan = %(plan)s AND status = 'SUBMITTED';

-- name: open_batches
-- Oldest first; free where no run holds it. A plan is its sender's until the lease is out: until then the provider
-- may still be making the batch.
SELECT batch.plan, batch.job_type, batch.day, batch.prompt_version, batch.model, batch.status, batch.input_file_id,
       batch.batch_id, batch.planned_at, coalesce(batch.lease_until < granary.now(), true) AS is_free
FROM news.ai_batch AS batch
WHERE batch.status IN ('PLANNED', 'SUBMITTED')
  AND (%(job_type)s::text IS NULL OR batch.job_type = %(job_type)s)
  AND (%(days)s::date[] IS NULL OR batch.day = ANY(%(days)s))
ORDER BY batch.planned_at, batch.plan;

-- name: take
UPDATE news.ai_batch
SET claimed_by = %(run_id)s, lease_until = granary.now() + make_interval(secs => %(lease_seconds)s)
WHERE plan = %(plan)s AND status = %(status)s AND coalesce(lease_until < granary.now(), true)
RETURNING plan;

-- name: renew
UPDATE news.ai_batch SET lease_until = granary.now() + make_interval(secs => %(lease_seconds)s)
WHERE plan = %(plan)s AND claimed_by = %(run_id)s AND status IN ('PLANNED', 'SUBMITTED')
RETURNING plan;

-- name: release
UPDATE news.ai_batch SET claimed_by = NULL, lease_until = NULL
WHERE plan = %(plan)s AND claimed_by = %(run_id)s AND status = 'SUBMITTED';

-- name: end
UPDATE news.ai_batch
SET status = %(status)s, ended_at = granary.now(), reason = %(reason)s, answers = %(answers)s,
    files_left = %(files)s, claimed_by = NULL, lease_until = NULL
WHERE plan = %(plan)s AND claimed_by = %(run_id)s AND status IN ('PLANNED', 'SUBMITTED')
RETURNING plan;

-- name: standing_batch_id
SELECT batch_id FROM news.ai_batch WHERE plan = %(plan)s;

-- name: jobs_of_batch
-- Whatever became of them since: an answer to one that is settled is none of a stranger.
SELECT id FROM news.ai_job WHERE batch_plan = %(plan)s;

-- name: submitted_jobs
SELECT id FROM news.ai_job WHERE batch_plan = %(plan)s AND status = 'SUBMITTED' ORDER BY id LIMIT %(limit)s;

-- name: lock_submitted
-- With the text as it is now, which may be another than was asked about.
SELECT job.id AS job_id, %(run_id)s AS run_id, job.attempt, job.article_id, job.day, job.section, article.title,
       coalesce(asked.asked_text, '') AS text, false AS lease_was_lost,
       job.batch_plan, job.asked_hash, job.error_code,
       job.job_type = 'SUMMARY' AND article.body_emptied_at IS NOT NULL AS has_lost_its_text,
       job.id <> (SELECT counting.id FROM news.job_that_counts(job.article_id, job.job_type) AS counting)
           AS is_superseded
FROM news.ai_job AS job JOIN news.article AS article ON article.id = job.article_id
CROSS JOIN LATERAL news.text_asked_about(job.article_id, job.job_type) AS asked
WHERE job.batch_plan = %(plan)s AND job.status = 'SUBMITTED' AND job.id = ANY(%(job_ids)s)
ORDER BY job.id
FOR UPDATE OF job;

-- name: return_jobs
-- They were not asked: back as they were, or due later.
UPDATE news.ai_job AS job
SET status = CASE WHEN %(delay_seconds)s::float IS NULL THEN 'PENDING' ELSE 'RETRY_WAIT' END,
    next_run_at = granary.now() + make_interval(secs => %(delay_seconds)s::float), attempt = job.attempt - 1,
    claimed_by = NULL, error_code = coalesce(%(error_code)s, job.error_code)
WHERE job.batch_plan = %(plan)s AND job.status = 'SUBMITTED'
  AND (%(job_ids)s::bigint[] IS NULL OR job.id = ANY(%(job_ids)s))
RETURNING job.id;

-- name: queued
-- What open batches of the model take of the provider's queue, and how many there are.
SELECT coalesce(sum(queued_tokens), 0)::bigint, count(*) FROM news.ai_batch
WHERE status IN ('PLANNED', 'SUBMITTED') AND model = %(model)s;

-- name: committed_today
SELECT coalesce((SELECT reserved_usd + spent_usd FROM granary.spending_day WHERE day = granary.today()), 0);

-- name: files_left
-- An upload whose answer was lost may still be on its way for a while: then its file is not there yet.
SELECT plan, unnest(files_left), planned_at, ended_at > granary.now() - interval '10 minutes' AS may_come
FROM news.ai_batch WHERE cardinality(files_left) > 0;

-- name: file_deleted
UPDATE news.ai_batch SET files_left = array_remove(files_left, %(file)s) WHERE plan = %(plan)s;

-- name: sections_in_batch
SELECT DISTINCT section FROM news.ai_job WHERE batch_plan = %(plan)s AND status = 'SUBMITTED' ORDER BY section;
