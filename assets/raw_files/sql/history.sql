-- What happened to one raw file, and how its partition stands. Reads only.

-- name: now
SELECT granary.now();

-- name: file
SELECT key, source, day, etag, size, modified_at, status, attempts, reason, rows, rejected, seen_at, processed_at,
       run_id, marked_etag
FROM raw.file WHERE key = %(key)s;

-- name: partition
SELECT status, asked_at, run_id, started_at, finished_at, failures, error, due_at
FROM raw.partition WHERE day = %(day)s AND source = %(source)s;

-- name: requests
SELECT id, force, requested_at, started_at, run_id FROM raw.request
WHERE day = %(day)s AND source = %(source)s ORDER BY id DESC LIMIT 10;

-- name: failures
SELECT timestamp, kind, type, run_id FROM raw.failure_log
WHERE partition = %(partition)s ORDER BY timestamp DESC LIMIT 20;

-- name: passes
-- Looks that could have seen a file of the day: those at it, and at the days behind it.
SELECT kind, scheduled_at, scanned_at, error, due_at FROM raw.pass
WHERE day BETWEEN %(day)s AND %(day)s::date + %(catch_up_days)s ORDER BY scheduled_at DESC LIMIT 20;

-- name: domains
SELECT count(*), count(page.domain_id) FILTER (WHERE page.status = 'FETCHED'),
       count(page.domain_id) FILTER (WHERE page.status = 'FAILED'),
       min(page.next_try_at) FILTER (WHERE page.status = 'FAILED')
FROM raw.domain_sighting AS sighting LEFT JOIN raw.front_page AS page USING (domain_id)
WHERE sighting.key = %(key)s;
