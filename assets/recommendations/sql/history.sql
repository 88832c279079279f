-- What happened to one member. Reads only.

-- name: member
-- Of events that can have happened: the application's table may hold any time.
SELECT granary.now() AS now,
       (SELECT opted_out_at FROM rec.member_opt_out WHERE member_id = %(member_id)s) AS opted_out_at,
       (SELECT count(*) FROM rec.member_event WHERE member_id = %(member_id)s) AS events,
       (SELECT max(occurred_at) FROM rec.member_event
        WHERE member_id = %(member_id)s
          AND occurred_at BETWEEN '1970-01-01 00:00+00' AND granary.now() + interval '1 day') AS last_event_at;

-- name: trigger
SELECT last_visited_at, trigger_at, lease_until, created_at, updated_at
FROM rec.visit_trigger WHERE member_id = %(member_id)s;

-- name: visits
-- As text too: a table may hold times that are no datetime.
SELECT id, occurred_at::text AS occurred_at, consumed_at FROM rec.member_visit
WHERE member_id = %(member_id)s ORDER BY id DESC LIMIT %(limit)s;

-- name: items
SELECT id, last_visited_at, extract(epoch FROM due_offset)::double precision / 3600 AS hours,
       candidate_generation_type AS wanted, status, queued_at, picked_at, finished_at, claimed_by, lease_until,
       returns, error
FROM rec.queue_item WHERE member_id = %(member_id)s ORDER BY queued_at DESC, id DESC LIMIT %(limit)s;

-- name: recommended
SELECT queue_item_id, count(*) AS products, max(created_at) AS created_at,
       string_agg(DISTINCT candidate_generation_type, ', ' ORDER BY candidate_generation_type) AS types
FROM rec.recommended_product WHERE member_id = %(member_id)s
GROUP BY queue_item_id ORDER BY max(created_at);
