-- What the alarms are decided from. Each is one look at an index, however much is stored.

-- name: now
SELECT granary.now();

-- name: standing
SELECT cause, max(day) FROM granary.alert WHERE cleared_at IS NULL GROUP BY cause;

-- name: raised_at
SELECT max(raised_at) FROM granary.alert WHERE cause = %(cause)s AND cleared_at IS NULL;

-- name: untold
SELECT count(*) FROM granary.alert AS alert
WHERE delivered_at IS NULL
  AND NOT EXISTS (SELECT FROM granary.alert AS newer
                  WHERE newer.cause = alert.cause AND newer.day > alert.day);

-- name: spending
-- The cap leaves a remainder that no call fits into: then the gate says that it is reached.
SELECT coalesce((SELECT reserved_usd + spent_usd FROM granary.spending_day WHERE day = granary.today()), 0),
       EXISTS (SELECT FROM granary.api_gate WHERE reason = 'BUDGET' AND next_probe_at > granary.now());

-- name: newest_article
-- The last ones by id: without an index over the times, and ids rise with them but for transactions.
SELECT max(stored_at) FROM (SELECT stored_at FROM news.article ORDER BY id DESC LIMIT 50) AS newest;

-- name: waiting_context_tags
SELECT min(requested_at) FROM granary.context_request
WHERE (handled_at IS NULL OR handled_at < requested_at) AND text IS NOT NULL;

-- name: waiting_recommendations
SELECT trigger_at FROM rec.visit_trigger
WHERE trigger_at <= granary.now() AND (lease_until IS NULL OR lease_until < granary.now())
ORDER BY trigger_at LIMIT 1;

-- name: running_long_economy_news
SELECT count(*) FROM news.ai_job WHERE status = 'RUNNING' AND lease_until < granary.now() - %(after)s;

-- name: running_long_recommendations
SELECT count(*) FROM rec.queue_item WHERE status = 'RUNNING' AND lease_until < granary.now() - %(after)s;

-- name: running_long_context_tags
SELECT count(*) FROM ai.context_ai_state
WHERE embedding_status = 'PROCESSING' AND updated_at < granary.now() - %(after)s
   OR keyword_status = 'PROCESSING' AND updated_at < granary.now() - %(after)s;

-- name: reserved_batches
SELECT pipeline, min(reserved_at) FROM granary.batch_reservation WHERE settled_at IS NULL GROUP BY pipeline;

-- name: news_batch
SELECT min(planned_at) FROM news.ai_batch WHERE status IN ('PLANNED', 'SUBMITTED');

-- name: counters
SELECT name, labels, value FROM granary.counter
WHERE name IN ('ai_leases_lost_total', 'openai_api_requests_total');

-- name: heartbeat_is_due
SELECT extract(hour FROM granary.now() AT TIME ZONE 'Asia/Seoul') >= %(hour)s
   AND NOT EXISTS (SELECT FROM granary.alert WHERE cause = %(cause)s AND day = granary.today());

-- name: yesterday
-- Once a day. Contexts are those that were posted on that day and are handled.
WITH of_day AS (
    SELECT day, day::timestamp AT TIME ZONE 'Asia/Seoul' AS first_moment,
           (day + 1)::timestamp AT TIME ZONE 'Asia/Seoul' AS end_moment
    FROM (SELECT granary.today() - 1 AS day) AS _
)
SELECT of_day.day,
       (SELECT count(*) FROM news.article WHERE article.day = of_day.day) AS articles,
       (SELECT count(*) FROM recipe.recipe WHERE recipe.run_id = of_day.day) AS recipes,
       (SELECT count(*) FROM granary.context_request
        WHERE requested_at >= first_moment AND requested_at < end_moment
          AND handled_at >= requested_at) AS contexts,
       (SELECT count(*) FROM rec.queue_item
        WHERE queued_at >= first_moment AND queued_at < end_moment
          AND status = 'SUCCEEDED') AS recommendations,
       coalesce((SELECT spent_usd FROM granary.spending_day
                 WHERE spending_day.day = of_day.day), 0) AS spent_usd,
       (SELECT count(*) FROM news.ai_job
        WHERE ai_job.day = of_day.day AND status = 'FAILED') AS failed_jobs
FROM of_day;
