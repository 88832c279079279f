-- What may stand in the way of work, whichever item waits for it. Reads only.

-- name: gates_of_model
-- Whatever key they are of; asked where no key is at hand to tell which.
SELECT reason, message, since, next_probe_at, next_probe_at <= granary.now() AS probe_is_due
FROM granary.api_gate
WHERE model = %(model)s AND NOT (reason = 'BUDGET' AND next_probe_at <= granary.now())
ORDER BY since DESC LIMIT 1;

-- name: spending_today
SELECT coalesce(max(reserved_usd + spent_usd), 0), (granary.today() + 1)::timestamp AT TIME ZONE 'Asia/Seoul'
FROM granary.spending_day WHERE day = granary.today();

-- name: news_tokens_queued
SELECT coalesce(sum(queued_tokens), 0) FROM news.ai_batch
WHERE model = %(model)s AND status IN ('PLANNED', 'SUBMITTED');
