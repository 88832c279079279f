-- The trigger of each member: leased while it is due, then moved to its next time or deleted.

-- name: now
SELECT granary.now();

-- name: due
SELECT count(*) FROM (
    SELECT FROM rec.visit_trigger
    WHERE trigger_at <= granary.now() AND (lease_until IS NULL OR lease_until < granary.now())
    LIMIT %(at_most)s
) AS due;

-- name: lease_due
-- The candidates are found without a lock. The conditions are repeated on the rows that are locked, since
-- another may have had them in between.
WITH candidate AS MATERIALIZED (
    SELECT member_id FROM rec.visit_trigger
    WHERE trigger_at <= granary.now() AND (lease_until IS NULL OR lease_until < granary.now())
    ORDER BY trigger_at, member_id LIMIT %(limit)s
), locked AS (
    SELECT trigger.member_id
    FROM rec.visit_trigger AS trigger JOIN candidate ON candidate.member_id = trigger.member_id
    WHERE trigger.trigger_at <= granary.now()
      AND (trigger.lease_until IS NULL OR trigger.lease_until < granary.now())
    FOR UPDATE OF trigger SKIP LOCKED
)
UPDATE rec.visit_trigger AS trigger
SET lease_until = granary.now() + make_interval(secs => %(lease_seconds)s), lease_token = %(lease_token)s
FROM locked WHERE trigger.member_id = locked.member_id
RETURNING trigger.member_id, trigger.last_visited_at, trigger.trigger_at, trigger.lease_token::text;

-- name: hold
-- Those whose lease is still the caller's: a member who was erased meanwhile has no row, and one that
-- another run has taken over is queued by that. In one order, so that two transactions cannot deadlock.
SELECT trigger.member_id
FROM rec.visit_trigger AS trigger
JOIN jsonb_to_recordset(%(items)s) AS item (member_id bigint, lease_token uuid)
  ON item.member_id = trigger.member_id AND item.lease_token = trigger.lease_token
ORDER BY trigger.member_id
FOR UPDATE OF trigger;

-- name: queue
-- Nothing where this due time was queued before, or where an item of the member is still open.
INSERT INTO rec.queue_item (member_id, last_visited_at, due_offset, candidate_generation_type, queued_at)
SELECT member_id, last_visited_at, make_interval(secs => due_offset), generation_type, granary.now()
FROM jsonb_to_recordset(%(items)s) AS item
    (member_id bigint, last_visited_at timestamptz, due_offset double precision, generation_type text)
WHERE member_id = ANY(%(held)s)
ORDER BY member_id
ON CONFLICT DO NOTHING
RETURNING id;

-- name: move
UPDATE rec.visit_trigger AS trigger
SET trigger_at = item.next_trigger_at, lease_until = NULL, lease_token = NULL, updated_at = granary.now()
FROM jsonb_to_recordset(%(items)s) AS item
    (member_id bigint, last_visited_at timestamptz, trigger_at timestamptz, lease_token uuid,
     next_trigger_at timestamptz)
WHERE trigger.member_id = item.member_id AND trigger.lease_token = item.lease_token
  AND trigger.last_visited_at = item.last_visited_at AND trigger.trigger_at = item.trigger_at
  AND item.next_trigger_at IS NOT NULL;

-- name: delete
DELETE FROM rec.visit_trigger AS trigger
USING jsonb_to_recordset(%(items)s) AS item
    (member_id bigint, last_visited_at timestamptz, trigger_at timestamptz, lease_token uuid,
     next_trigger_at timestamptz)
WHERE trigger.member_id = item.member_id AND trigger.lease_token = item.lease_token
  AND trigger.last_visited_at = item.last_visited_at AND trigger.trigger_at = item.trigger_at
  AND item.next_trigger_at IS NULL;

-- name: free
-- What a new visit has changed meanwhile keeps its new times.
UPDATE rec.visit_trigger AS trigger SET lease_until = NULL, lease_token = NULL
FROM jsonb_to_recordset(%(items)s) AS item (member_id bigint, lease_token uuid)
WHERE trigger.member_id = item.member_id AND trigger.lease_token = item.lease_token;
