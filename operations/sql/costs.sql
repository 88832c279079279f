-- What the models cost. Days are those of granary.today() (Asia/Seoul).

-- name: now
SELECT granary.now() AT TIME ZONE 'Asia/Seoul';

-- name: by_day
SELECT day, pipeline, model, calls, input_tokens, cached_tokens, output_tokens, cost_usd
FROM granary.spending WHERE day > granary.today() - %(days)s::integer
ORDER BY day DESC, pipeline, model;

-- name: day_totals
SELECT day, spent_usd, reserved_usd FROM granary.spending_day
WHERE day > granary.today() - %(days)s::integer ORDER BY day DESC;

-- name: open_batches
SELECT pipeline, model, day, count(*), sum(usd) FROM granary.batch_reservation
WHERE settled_at IS NULL GROUP BY pipeline, model, day ORDER BY day DESC, pipeline, model;
