-- The queue of members to recommend for, and what was recommended. Days are UTC days of queued_at.

-- name: pick
-- The bounds only let the index begin at the right place.
WITH waiting AS (
    SELECT id FROM rec.queue_item
    WHERE status = 'PENDING'
      AND queued_at >= coalesce(%(first)s::date::timestamp AT TIME ZONE 'UTC', '-infinity')
      AND queued_at < coalesce((%(last)s::date + 1)::timestamp AT TIME ZONE 'UTC', 'infinity')
      AND (%(days)s::date[] IS NULL OR (queued_at AT TIME ZONE 'UTC')::date = ANY(%(days)s))
    ORDER BY queued_at, id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), picked AS (
    UPDATE rec.queue_item AS item
    SET status = 'RUNNING', picked_at = granary.now(), claimed_by = %(claimed_by)s,
        lease_until = granary.now() + make_interval(secs => %(lease_seconds)s)
    FROM waiting WHERE item.id = waiting.id
    RETURNING item.id, item.member_id, item.candidate_generation_type, item.queued_at
)
SELECT id, member_id, candidate_generation_type FROM picked ORDER BY queued_at, id;

-- name: renew
UPDATE rec.queue_item SET lease_until = granary.now() + make_interval(secs => %(lease_seconds)s)
WHERE id = ANY(%(ids)s) AND status = 'RUNNING' AND claimed_by = %(claimed_by)s
RETURNING id;

-- name: finish
-- The type is part of the claim: see ask_for_everybodys.
UPDATE rec.queue_item AS item
SET status = %(status)s, finished_at = granary.now(), lease_until = NULL, error = %(error)s
WHERE id = %(id)s AND status = 'RUNNING' AND claimed_by = %(claimed_by)s
  AND candidate_generation_type = %(wanted)s
  AND NOT (%(is_profiled)s
           AND EXISTS (SELECT FROM rec.member_opt_out AS refused WHERE refused.member_id = item.member_id))
RETURNING id;

-- name: delete_recommended
DELETE FROM rec.recommended_product WHERE member_id = %(member_id)s;

-- name: add_recommended
INSERT INTO rec.recommended_product
    (member_id, product_id, rank, score, candidate_generation_type, queue_item_id, created_at)
SELECT %(member_id)s, product_id, rank, score, generation_type, %(queue_item_id)s, granary.now()
FROM unnest(%(product_ids)s::bigint[], %(scores)s::double precision[], %(generation_types)s::text[])
     WITH ORDINALITY AS ranked (product_id, score, generation_type, rank);

-- name: return_items
-- Back once, then failed: what has killed two runs may kill every run. Leases that ran out, or all of a run.
WITH dead AS (
    SELECT id, returns FROM rec.queue_item
    WHERE status = 'RUNNING'
      AND CASE WHEN %(claimed_by)s::text IS NULL THEN lease_until < granary.now()
               ELSE claimed_by = %(claimed_by)s END
    FOR UPDATE SKIP LOCKED
)
UPDATE rec.queue_item AS item
SET status = CASE dead.returns WHEN 0 THEN 'PENDING' ELSE 'FAILED' END,
    finished_at = CASE dead.returns WHEN 0 THEN NULL ELSE granary.now() END,
    error = CASE dead.returns WHEN 0 THEN NULL ELSE %(error)s END,
    picked_at = CASE dead.returns WHEN 0 THEN NULL ELSE item.picked_at END,
    returns = 1, claimed_by = NULL, lease_until = NULL
FROM dead WHERE item.id = dead.id
RETURNING item.status;

-- name: requeue_failed
-- Of several failed items of a member the newest. Two at once meet in queue_item_one_open_per_member.
WITH failed AS (
    SELECT DISTINCT ON (member_id) id, member_id FROM rec.queue_item AS item
    WHERE status = 'FAILED' AND (%(ids)s::bigint[] IS NULL OR id = ANY(%(ids)s))
      AND NOT EXISTS (SELECT FROM rec.queue_item AS other
                      WHERE other.member_id = item.member_id AND other.status IN ('PENDING', 'RUNNING'))
    ORDER BY member_id, queued_at DESC, id DESC
)
UPDATE rec.queue_item AS item
SET status = 'PENDING', returns = 0, error = NULL, picked_at = NULL, finished_at = NULL, claimed_by = NULL
FROM failed WHERE item.id = failed.id AND item.status = 'FAILED'
RETURNING item.id;

-- name: days_waiting
SELECT (queued_at AT TIME ZONE 'UTC')::date AS day, count(*)
FROM rec.queue_item
WHERE status = 'PENDING' OR (status = 'RUNNING' AND lease_until < granary.now())
GROUP BY day ORDER BY day;

-- name: counts_by_day
SELECT day.day, item.candidate_generation_type, item.status, count(*)
FROM unnest(%(days)s::date[]) AS day (day)
JOIN rec.queue_item AS item ON item.queued_at >= day.day::timestamp AT TIME ZONE 'UTC'
                           AND item.queued_at < (day.day + 1)::timestamp AT TIME ZONE 'UTC'
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
