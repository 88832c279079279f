-- What happened to one article: its links, its jobs with their batches, its results. Reads only.

-- name: ids_of
SELECT oid, aid FROM news.article WHERE id = %(article_id)s;

-- name: clock
SELECT granary.now(), ((granary.now() - interval '15 minutes') AT TIME ZONE 'Asia/Seoul')::date;

-- name: article
SELECT article.id, article.day, article.section, article.title, article.body_characters, article.body_emptied_at,
       article.completed_at, article.stored_at, article.run_id, article.duplicate_of,
       original.oid || '/' || original.aid AS original
FROM news.article AS article LEFT JOIN news.article AS original ON original.id = article.duplicate_of
WHERE article.oid = %(oid)s AND article.aid = %(aid)s;

-- name: pages
SELECT section, day, position, status, passes, reason, listed_at, looked_at,
       looked_at + make_interval(mins => passes * passes) AS next_try_at
FROM news.listed_page WHERE oid = %(oid)s AND aid = %(aid)s ORDER BY listed_at, section;

-- name: jobs
-- The first of a type is the one that counts.
SELECT job.id, job.job_type, job.status, job.mode, job.attempt, job.claimed_by, job.lease_until, job.next_run_at,
       job.suspend_reason, job.error_code, job.error_message, job.created_at, job.asked_at, job.settled_at,
       job.redo_number, job.day, job.section, job.model, job.batch_plan
FROM news.ai_job AS job WHERE job.article_id = %(article_id)s
ORDER BY job.job_type, job.asked_at DESC, job.id DESC;

-- name: batches
SELECT batch.plan, batch.job_type, batch.status, batch.jobs, batch.batch_id, batch.claimed_by, batch.lease_until,
       batch.planned_at, batch.submitted_at, batch.ended_at, batch.reason
FROM news.ai_batch AS batch WHERE batch.plan = ANY(%(plans)s) ORDER BY batch.planned_at;

-- name: results
SELECT result.id, result.job_id, result.job_type, result.model, result.prompt_version, result.cost_usd,
       result.input_tokens + result.output_tokens AS tokens, result.run_id, result.created_at, result.asked_at,
       coalesce(cardinality(summary.unsupported_numbers), 0) AS unsupported
FROM news.ai_result AS result LEFT JOIN news.summary AS summary ON summary.result_id = result.id
WHERE result.article_id = %(article_id)s ORDER BY result.created_at, result.id;

-- name: outdated
-- Made by another prompt or model, or from an input that has changed since.
SELECT kind.job_type
FROM unnest(%(job_types)s::text[], %(prompt_versions)s::text[]) AS kind (job_type, prompt_version)
CROSS JOIN LATERAL news.result_and_input(%(article_id)s, kind.job_type) AS input
WHERE (input.prompt_version, input.model, input.input_hash)
      IS DISTINCT FROM (kind.prompt_version, %(model)s::text, input.input_hash_now)
ORDER BY kind.job_type;
