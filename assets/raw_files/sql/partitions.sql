-- Passes, attempts at partitions, requests, reports. Every time is granary.now(), the database's clock.

-- name: start_pass
-- A tick's look at the bucket. No row: it was done for this tick already. One that dies without a word is
-- repeated in ten minutes.
INSERT INTO raw.pass AS pass (kind, scheduled_at, day, started_at, due_at)
VALUES (%(kind)s, %(scheduled_at)s, %(day)s, granary.now(), granary.now() + interval '10 minutes')
ON CONFLICT (kind, scheduled_at) DO UPDATE SET due_at = excluded.due_at
WHERE pass.scanned_at IS NULL
RETURNING id;

-- name: finish_pass
UPDATE raw.pass
SET scanned_at = granary.now(), error = NULL, due_at = NULL, partitions_scanned = %(scanned)s,
    partitions_with_new_files = %(with_new_files)s, new_files = %(new_files)s
WHERE id = %(id)s;

-- name: fail_pass
-- Repeated after 5, 10 and 20 minutes (the array), then not any more.
UPDATE raw.pass
SET failures = failures + 1, error = %(error)s,
    due_at = granary.now() + make_interval(mins => (%(delays)s::integer[])[failures + 1])
WHERE id = %(id)s AND scanned_at IS NULL
RETURNING due_at;

-- name: passes_due
SELECT id, kind, scheduled_at FROM raw.pass
WHERE scanned_at IS NULL AND due_at <= granary.now() ORDER BY scheduled_at;

-- name: pass_facts
SELECT kind, day, scheduled_at, started_at, scanned_at, coalesce(partitions_scanned, 0),
       coalesce(partitions_with_new_files, 0), coalesce(new_files, 0)
FROM raw.pass WHERE scheduled_at >= %(since)s ORDER BY scheduled_at;

-- name: newest_pass_day
SELECT max(day) FROM raw.pass;

-- name: ask_for_partitions
-- Runs are asked for. Asked again in ten minutes if no run has come by then. Failures in a row stay counted: a
-- partition whose tries are spent has one more, and its alarm stands until it succeeds. No row: it is RUNNING.
INSERT INTO raw.partition AS partition (day, source, status, asked_at, due_at)
SELECT day, source, 'NEW', granary.now(), granary.now() + interval '10 minutes'
FROM jsonb_to_recordset(%(partitions)s) AS asked (day date, source text)
ON CONFLICT (day, source) DO UPDATE
SET status = 'NEW', asked_at = granary.now(), due_at = granary.now() + interval '10 minutes',
    error = NULL, finished_at = NULL
WHERE partition.status <> 'RUNNING'
RETURNING day, source;

-- name: start_partition
INSERT INTO raw.partition AS partition (day, source, status, run_id, started_at, due_at)
VALUES (%(day)s, %(source)s, 'RUNNING', %(run_id)s, granary.now(),
        granary.now() + make_interval(secs => %(seconds)s))
ON CONFLICT (day, source) DO UPDATE
SET status = 'RUNNING', run_id = excluded.run_id, started_at = excluded.started_at,
    due_at = excluded.due_at, finished_at = NULL
WHERE partition.status <> 'RUNNING' OR partition.run_id IS DISTINCT FROM excluded.run_id;

-- name: finish_partition
UPDATE raw.partition
SET status = 'DONE', finished_at = granary.now(), failures = 0, error = NULL, due_at = NULL
WHERE day = %(day)s AND source = %(source)s AND status = 'RUNNING' AND run_id = %(run_id)s
RETURNING 1;

-- name: fail_partition
-- The run's attempt failed: tried again after 5, 10 and 20 minutes (the array). Also a run that ended before
-- it could start the partition, but once, and never an attempt of another run.
UPDATE raw.partition
SET status = 'FAILED', finished_at = granary.now(), failures = failures + 1, error = %(error)s,
    run_id = %(run_id)s,
    due_at = granary.now() + make_interval(mins => (%(delays)s::integer[])[failures + 1])
WHERE day = %(day)s AND source = %(source)s
  AND (status = 'RUNNING' AND run_id = %(run_id)s
       OR run_id IS DISTINCT FROM %(run_id)s
          AND (status = 'NEW' OR status = 'FAILED' AND due_at <= granary.now())
          AND NOT EXISTS (SELECT FROM raw.failure_log AS told WHERE told.run_id = %(run_id)s))
RETURNING failures, due_at;

-- name: stop_partition
-- A person canceled the run, also one that waited in the queue: nobody tries again before the next pass.
UPDATE raw.partition
SET status = 'FAILED', finished_at = granary.now(), error = 'canceled', run_id = %(run_id)s, due_at = NULL
WHERE day = %(day)s AND source = %(source)s
  AND (status = 'RUNNING' AND run_id = %(run_id)s
       OR run_id IS DISTINCT FROM %(run_id)s
          AND (status = 'NEW' OR status = 'FAILED' AND due_at <= granary.now()));

-- name: overdue_partitions
-- Attempts that took longer than a run may.
SELECT day, source, run_id FROM raw.partition WHERE status = 'RUNNING' AND due_at <= granary.now();

-- name: partitions_due
SELECT day, source, failures FROM raw.partition
WHERE status IN ('NEW', 'FAILED') AND due_at <= granary.now()
ORDER BY due_at LIMIT %(limit)s;

-- name: partition_facts
-- Per partition with files that were new to us (no marker of somebody else), or with an attempt.
WITH files AS (
    SELECT day, source, count(*) AS new_files, count(*) FILTER (WHERE status = 'PROCESSED') AS processed,
           count(*) FILTER (WHERE status = 'FAILED') AS failed
    FROM raw.file
    WHERE day BETWEEN %(first)s AND %(last)s AND (status <> 'PROCESSED' OR run_id IS NOT NULL)
    GROUP BY day, source
), attempts AS (
    SELECT * FROM raw.partition WHERE day BETWEEN %(first)s AND %(last)s
)
SELECT day, source, coalesce(attempts.status, 'DONE'), coalesce(new_files, 0), coalesce(processed, 0),
       coalesce(failed, 0), coalesce(failures, 0), error,
       CASE WHEN attempts.status = 'FAILED' THEN due_at END, finished_at
FROM files FULL JOIN attempts USING (day, source)
ORDER BY day, source;

-- name: files_by_day
SELECT day, count(*) FROM raw.file WHERE day BETWEEN %(first)s AND %(last)s GROUP BY day;

-- name: scanned_days
-- The days that a finished pass looked for.
SELECT DISTINCT day FROM raw.pass WHERE scanned_at IS NOT NULL AND day BETWEEN %(first)s AND %(last)s;

-- name: request_partition
INSERT INTO raw.request (day, source, force, requested_at)
VALUES (%(day)s, %(source)s, %(force)s, granary.now()) RETURNING id;

-- name: requests_waiting
-- Not yet: a day that has not begun has no partition, and after a run of the request failed before it got to
-- the files, it waits until the partition is tried again.
SELECT id, day, source, force FROM raw.request
WHERE started_at IS NULL AND day <= (granary.now() AT TIME ZONE 'UTC')::date
  AND NOT EXISTS (SELECT FROM raw.partition AS failed
                  WHERE failed.day = request.day AND failed.source = request.source AND failed.status = 'FAILED'
                    AND failed.finished_at > request.requested_at
                    AND coalesce(failed.due_at, 'infinity') > granary.now())
ORDER BY id LIMIT %(limit)s;

-- name: request_started
UPDATE raw.request SET started_at = granary.now(), run_id = %(run_id)s
WHERE id = %(id)s AND started_at IS NULL;

-- name: reports_due
-- Days of which something has happened since their report, and on which nothing runs or is about to.
WITH happened AS (
    SELECT day, max(scanned_at) AS at FROM raw.pass WHERE scanned_at IS NOT NULL AND day >= %(since)s
    GROUP BY day
    UNION ALL
    SELECT day, max(finished_at) FROM raw.partition WHERE day >= %(since)s GROUP BY day
)
SELECT day FROM happened LEFT JOIN raw.daily_report USING (day)
WHERE NOT EXISTS (SELECT FROM raw.partition AS busy
                  WHERE busy.day = happened.day AND busy.status IN ('NEW', 'RUNNING') AND busy.due_at > granary.now())
GROUP BY day HAVING max(at) > coalesce(max(as_of), '-infinity')
ORDER BY day DESC;

-- name: write_report
INSERT INTO raw.daily_report AS report (day, as_of, summary) VALUES (%(day)s, %(as_of)s, %(summary)s)
ON CONFLICT (day) DO UPDATE SET as_of = excluded.as_of, summary = excluded.summary
WHERE report.as_of <= excluded.as_of;

-- name: daily_report
SELECT summary FROM raw.daily_report WHERE day = %(day)s;

-- name: log_failure
INSERT INTO raw.failure_log (type, kind, timestamp, error, stack, environment, partition, run_id)
VALUES (%(type)s, %(kind)s, granary.now(), %(error)s, %(stack)s, %(environment)s, %(partition)s, %(run_id)s)
ON CONFLICT ON CONSTRAINT failure_once_a_run DO NOTHING;

-- name: now
SELECT granary.now();
