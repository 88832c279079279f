-- Everything of one member, in the order in which the others take their locks: visits, trigger, queue, set.
-- So what a transaction at work has written by then is found by the statement that comes after it.

-- name: visits
DELETE FROM rec.member_visit WHERE member_id = %(member_id)s;

-- name: triggers
DELETE FROM rec.visit_trigger WHERE member_id = %(member_id)s;

-- name: queue_items
DELETE FROM rec.queue_item WHERE member_id = %(member_id)s;

-- name: recommended
DELETE FROM rec.recommended_product WHERE member_id = %(member_id)s;

-- name: events
DELETE FROM rec.member_event WHERE member_id = %(member_id)s;

-- name: opt_outs
DELETE FROM rec.member_opt_out WHERE member_id = %(member_id)s;
