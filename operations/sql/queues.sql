-- How much waits, for how long, and what stands in the way: asked every few seconds, so from small tables and
-- by indexes alone; what has ended well is never counted. Every time is granary.now(), the database's clock.

-- name: now
SELECT granary.now();

-- name: news_jobs
-- Waiting since: when it was asked for, fell due, or lost its lease. What is at the provider is counted by batch.
-- Of what has stopped, the job that counts for its article: a replaced one is neither resumed nor tried again.
SELECT job_type, status, count(*),
       min(CASE status WHEN 'PENDING' THEN asked_at WHEN 'RETRY_WAIT' THEN next_run_at ELSE lease_until END)
           AS waiting_since
FROM news.ai_job
WHERE status IN ('PENDING', 'RETRY_WAIT', 'RUNNING')
GROUP BY job_type, status
UNION ALL
SELECT job_type, 'SUBMITTED', sum(jobs)::bigint, NULL FROM news.ai_batch WHERE status IN ('PLANNED', 'SUBMITTED')
GROUP BY job_type
UNION ALL
SELECT job_type, status, count(*), NULL FROM news.ai_job AS job
WHERE status IN ('SUSPENDED', 'FAILED')
  AND NOT EXISTS (SELECT FROM news.ai_job AS newer
                  WHERE newer.article_id = job.article_id AND newer.job_type = job.job_type
                    AND (newer.asked_at, newer.id) > (job.asked_at, job.id))
GROUP BY job_type, status;

-- name: raw_partitions
SELECT status, count(*), min(CASE WHEN status = 'NEW' THEN asked_at ELSE due_at END)
FROM raw.partition WHERE status IN ('NEW', 'RUNNING', 'FAILED') GROUP BY status
UNION ALL
SELECT 'REQUESTED', count(*), min(requested_at) FROM raw.request WHERE started_at IS NULL;

-- name: context_requests
-- One whose text is gone waits no more: there is nothing to be done with it.
SELECT count(*), min(requested_at) FROM granary.context_request
WHERE (handled_at IS NULL OR handled_at < requested_at) AND text IS NOT NULL;

-- name: context_stages
SELECT 'embedding', embedding_status, count(*) FROM ai.context_ai_state
WHERE embedding_status IN ('PENDING', 'PROCESSING', 'FAILED') GROUP BY embedding_status
UNION ALL
SELECT 'keyword', keyword_status, count(*) FROM ai.context_ai_state
WHERE keyword_status IN ('PENDING', 'PROCESSING', 'FAILED') GROUP BY keyword_status;

-- name: members
SELECT 'DUE', count(*), min(trigger_at) FROM rec.visit_trigger
WHERE trigger_at <= granary.now() AND (lease_until IS NULL OR lease_until < granary.now())
UNION ALL
SELECT 'PENDING', count(*), min(queued_at) FROM rec.queue_item WHERE status = 'PENDING'
UNION ALL
SELECT 'RUNNING', count(*), min(lease_until) FROM rec.queue_item WHERE status = 'RUNNING';

-- name: news_batches
SELECT count(*), min(planned_at) FROM news.ai_batch WHERE status IN ('PLANNED', 'SUBMITTED');

-- name: money
SELECT coalesce(sum(spent_usd), 0)::float8, coalesce(sum(reserved_usd), 0)::float8
FROM granary.spending_day WHERE day = granary.today();

-- name: shut_gates
-- A gate of a key that is no longer in use stays shut and means nothing.
SELECT DISTINCT model, reason FROM granary.api_gate
WHERE (%(provider_key)s::text IS NULL OR provider_key = %(provider_key)s)
  AND NOT (reason = 'BUDGET' AND next_probe_at <= granary.now());

-- name: alarms
-- A heartbeat that could not be told is none.
SELECT count(DISTINCT cause) FILTER (WHERE cleared_at IS NULL AND cause <> 'heartbeat'),
       extract(epoch FROM granary.now() - max(delivered_at) FILTER (WHERE cause = 'heartbeat'))::float8
FROM granary.alert;

-- name: counters
SELECT name, labels, value FROM granary.counter;
