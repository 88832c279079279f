-- Visits, posted or written into a table, and who refused profiling. Every time is granary.now(), the
-- database's clock (a session may move it).

-- name: visit
-- One visit, whichever way it came. Refused here and nowhere else: too far ahead, and before 1970, which is
-- no time of a visit (a table may hold -infinity). A lease is left alone: whoever holds it queues what was
-- due, and its finish finds the trigger changed.
WITH given AS (
    SELECT %(member_id)s::bigint AS member_id, moment.occurred_at,
           moment.occurred_at > granary.now() + make_interval(secs => %(most_ahead)s) AS is_too_far_ahead
    FROM (SELECT coalesce(%(occurred_at)s::timestamptz, granary.now())) AS moment (occurred_at)
), changed AS (
    INSERT INTO rec.visit_trigger AS trigger (member_id, last_visited_at, trigger_at, created_at, updated_at)
    SELECT member_id, occurred_at, occurred_at + make_interval(secs => %(first_offset)s), granary.now(),
           granary.now()
    FROM given
    WHERE NOT is_too_far_ahead AND occurred_at >= '1970-01-01 00:00+00'
    ON CONFLICT (member_id) DO UPDATE
    SET last_visited_at = excluded.last_visited_at, trigger_at = excluded.trigger_at,
        updated_at = excluded.updated_at
    WHERE trigger.last_visited_at < excluded.last_visited_at - make_interval(secs => %(session)s)
    RETURNING member_id
)
SELECT EXISTS (SELECT FROM changed), is_too_far_ahead FROM given;

-- name: take_visits
-- The times as text: not every one fits a datetime. In the order in which they are to have their effect.
WITH waiting AS (
    SELECT id FROM rec.member_visit WHERE consumed_at IS NULL
    ORDER BY id LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE rec.member_visit AS visit SET consumed_at = granary.now()
    FROM waiting WHERE visit.id = waiting.id
    RETURNING visit.id, visit.member_id, visit.occurred_at
)
SELECT member_id, occurred_at::text FROM taken ORDER BY member_id, taken.occurred_at, id;

-- name: visits_waiting
SELECT count(*) FROM (
    SELECT FROM rec.member_visit WHERE consumed_at IS NULL LIMIT %(at_most)s
) AS waiting;

-- name: opt_out
INSERT INTO rec.member_opt_out (member_id, opted_out_at) VALUES (%(member_id)s, granary.now())
ON CONFLICT (member_id) DO NOTHING
RETURNING member_id;

-- name: ask_for_everybodys
-- Also what a run is ranking just now: it has read what it may not use any more. It does not get its item
-- back for what it read, since a finish shows the type that was asked for.
UPDATE rec.queue_item
SET candidate_generation_type = 'G0', status = 'PENDING', picked_at = NULL, claimed_by = NULL,
    lease_until = NULL
WHERE member_id = %(member_id)s AND status IN ('PENDING', 'RUNNING') AND candidate_generation_type <> 'G0';

-- name: forget_profiled
DELETE FROM rec.recommended_product
WHERE member_id = %(member_id)s AND candidate_generation_type <> 'G0';

-- name: opt_in
DELETE FROM rec.member_opt_out WHERE member_id = %(member_id)s RETURNING member_id;
