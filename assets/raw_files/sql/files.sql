-- Files, and the domains in them. Every time is granary.now(), the database's clock.

-- name: ledger
-- What is known of the files of some days: the version that each was processed with, '' where none was.
SELECT key, CASE status WHEN 'PROCESSED' THEN etag ELSE '' END FROM raw.file
WHERE day BETWEEN %(first)s AND %(last)s AND (%(source)s::text IS NULL OR source = %(source)s);

-- name: known_versions
-- The version of each file as it was last seen, processed or not; '' where it waits and nobody asked for a run:
-- the look that recorded it died, or the partition's last run left it.
SELECT key, CASE WHEN file.status = 'PENDING' AND coalesce(partition.status, 'DONE') = 'DONE' THEN '' ELSE etag END
FROM raw.file LEFT JOIN raw.partition USING (day, source)
WHERE day BETWEEN %(first)s AND %(last)s;

-- name: add_files
-- New files; one that is known stays as it is. ON CONFLICT alone would wait for a run that has just finished one
-- and not committed yet.
INSERT INTO raw.file (key, source, day, etag, size, modified_at, status, seen_at, processed_at)
SELECT key, source, day, etag, size, modified_at, CASE WHEN finished THEN 'PROCESSED' ELSE 'PENDING' END,
       granary.now(), CASE WHEN finished THEN granary.now() END
FROM jsonb_to_recordset(%(files)s)
    AS listed (key text, source text, day date, etag text, size bigint, modified_at timestamptz,
               finished boolean)
WHERE NOT EXISTS (SELECT FROM raw.file WHERE file.key = listed.key)
ON CONFLICT (key) DO NOTHING;

-- name: replace_files
-- Files that are another version now wait again. One that a run is just processing is left to the next look:
-- nobody waits for a lock here.
UPDATE raw.file AS file
SET etag = listed.etag, size = listed.size, modified_at = listed.modified_at, status = 'PENDING',
    attempts = 0, reason = NULL, processed_at = NULL, seen_at = granary.now()
FROM jsonb_to_recordset(%(files)s) AS listed (key text, etag text, size bigint, modified_at timestamptz)
WHERE file.key = listed.key
  AND file.key IN (SELECT key FROM raw.file
                   WHERE key IN (SELECT key FROM jsonb_to_recordset(%(files)s) AS wanted (key text))
                   FOR UPDATE SKIP LOCKED)
  AND file.etag <> listed.etag;

-- name: forget_processing
-- These files wait again (force); not those that are in the ledger and no longer in the bucket.
UPDATE raw.file SET status = 'PENDING', attempts = 0, reason = NULL, processed_at = NULL
WHERE key IN (SELECT key FROM raw.file WHERE key = ANY(%(keys)s) FOR UPDATE SKIP LOCKED);

-- name: files_to_process
SELECT key, etag, size FROM raw.file
WHERE day = %(day)s AND source = %(source)s AND status IN ('PENDING', 'FAILED')
ORDER BY key;

-- name: lock_file
-- The file for this transaction alone: the lock is the lease, and falls with the connection. No row: another
-- run has it, or it is processed, or it is another version.
SELECT 1 FROM raw.file
WHERE key = %(key)s AND etag = %(etag)s AND status IN ('PENDING', 'FAILED')
FOR UPDATE SKIP LOCKED;

-- name: make_stage
CREATE TEMP TABLE IF NOT EXISTS raw_stage (domain text, title text, description text, rank integer);

-- name: empty_stage
TRUNCATE raw_stage;

-- name: copy_into_stage
COPY raw_stage (domain, title, description, rank) FROM STDIN;

-- name: add_domains
-- In the order of the names, so that two transactions that add the same ones cannot wait for each other.
INSERT INTO raw.domain (domain, first_seen_at)
SELECT DISTINCT domain, granary.now() FROM raw_stage
WHERE NOT EXISTS (SELECT FROM raw.domain WHERE domain.domain = raw_stage.domain)
ORDER BY domain
ON CONFLICT (domain) DO NOTHING;

-- name: drop_sightings
DELETE FROM raw.domain_sighting WHERE key = %(key)s;

-- name: add_sightings
INSERT INTO raw.domain_sighting (key, source, day, domain_id, title, description, rank)
SELECT DISTINCT ON (domain.id) file.key, file.source, file.day, domain.id, stage.title, stage.description,
       stage.rank
FROM raw_stage AS stage JOIN raw.domain ON domain.domain = stage.domain
CROSS JOIN (SELECT key, source, day FROM raw.file WHERE key = %(key)s) AS file
ORDER BY domain.id, stage.ctid;

-- name: finish_file
-- Its marker is to be written anew, also if it was processed in this version before (force).
UPDATE raw.file
SET status = 'PROCESSED', attempts = attempts + 1, reason = NULL, rows = %(rows)s, rejected = %(rejected)s,
    sha256 = %(sha256)s, processed_at = granary.now(), run_id = %(run_id)s, marked_etag = NULL
WHERE key = %(key)s AND etag = %(etag)s AND status IN ('PENDING', 'FAILED')
RETURNING processed_at;

-- name: fail_file
UPDATE raw.file
SET status = 'FAILED', attempts = attempts + 1, reason = %(reason)s, run_id = %(run_id)s
WHERE key = %(key)s AND etag = %(etag)s AND status IN ('PENDING', 'FAILED');

-- name: forget_gone_file
-- A file that was taken away before we ever processed it. Any other keeps its row: without it, our marker would
-- have a later upload pass for one that others have finished.
DELETE FROM raw.file
WHERE key = %(key)s AND etag = %(etag)s AND status IN ('PENDING', 'FAILED') AND sha256 IS NULL;

-- name: keep_gone_file
-- A newer version that was taken away before we read it: what we have is the one that our marker speaks of. Without a
-- marker nobody knows which version that was, and the row waits as it is.
UPDATE raw.file
SET status = 'PROCESSED', etag = marked_etag, reason = NULL, processed_at = granary.now()
WHERE key = %(key)s AND etag = %(etag)s AND status IN ('PENDING', 'FAILED') AND sha256 IS NOT NULL
  AND marked_etag IS NOT NULL;

-- name: markers_to_write
-- Files that we processed and whose marker speaks of no version, or of another.
SELECT key, etag, run_id, rows, sha256, processed_at FROM raw.file
WHERE day = %(day)s AND source = %(source)s AND status = 'PROCESSED' AND run_id IS NOT NULL
  AND marked_etag IS DISTINCT FROM etag
ORDER BY key;

-- name: marker_written
UPDATE raw.file SET marked_etag = %(etag)s WHERE key = %(key)s;

-- name: partitions_without_markers
SELECT DISTINCT day, source FROM raw.file
WHERE day BETWEEN %(first)s AND %(last)s AND status = 'PROCESSED' AND run_id IS NOT NULL
  AND marked_etag IS DISTINCT FROM etag;

-- name: partition_counts
SELECT count(*), count(*) FILTER (WHERE status = 'PENDING'),
       count(*) FILTER (WHERE status = 'PROCESSED' AND run_id IS NOT NULL),
       count(*) FILTER (WHERE status = 'PROCESSED' AND run_id IS NULL),
       count(*) FILTER (WHERE status = 'FAILED'),
       coalesce(sum(rows), 0)::bigint, coalesce(sum(rejected), 0)::bigint
FROM raw.file WHERE day = %(day)s AND source = %(source)s;

-- name: failed_files
SELECT key, reason FROM raw.file
WHERE day = %(day)s AND source = %(source)s AND status = 'FAILED' ORDER BY key LIMIT %(limit)s;
