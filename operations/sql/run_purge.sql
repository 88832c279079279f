-- Old runs in Dagster's own database. What a partition's state is told from stays for ever, and it is little.

-- name: runs_that_checks_need
-- The newest evaluation of each check, and the newest that came to an end: once a day, since nothing here is
-- indexed by run.
SELECT DISTINCT run_id FROM asset_check_executions
WHERE id IN (SELECT max(id) FROM asset_check_executions GROUP BY asset_key, check_name, partition
             UNION ALL
             SELECT max(id) FROM asset_check_executions WHERE execution_status <> 'PLANNED'
             GROUP BY asset_key, check_name, partition);

-- name: old_runs
-- Runs that ended before then and who may go: none of their asset events is the newest of its kind for its asset
-- and partition. A plan is over once a materialisation followed, so the last attempt of a partition that failed
-- stays too. A run that a later one tries again from stays as long as that one: the UI looks for the first. The
-- newest is found by max(), which is one step in an index; a join may be planned as a pass over all events.
SELECT run.id, run.run_id,
       run.run_id <> ALL(%(checked)s::text[])
       AND NOT EXISTS (
           SELECT FROM event_logs AS event
           WHERE event.run_id = run.run_id AND event.asset_key IS NOT NULL
             AND event.dagster_event_type = ANY(%(asset_events)s::text[])
             AND event.id >= greatest(
                 CASE WHEN event.partition IS NULL
                      THEN (SELECT max(same.id) FROM event_logs AS same
                            WHERE same.asset_key = event.asset_key AND same.partition IS NULL
                              AND same.dagster_event_type = event.dagster_event_type)
                      ELSE (SELECT max(same.id) FROM event_logs AS same
                            WHERE same.asset_key = event.asset_key AND same.partition = event.partition
                              AND same.dagster_event_type = event.dagster_event_type) END,
                 CASE WHEN event.dagster_event_type <> 'ASSET_MATERIALIZATION_PLANNED' THEN NULL
                      WHEN event.partition IS NULL
                      THEN (SELECT max(made.id) FROM event_logs AS made
                            WHERE made.asset_key = event.asset_key AND made.partition IS NULL
                              AND made.dagster_event_type = 'ASSET_MATERIALIZATION')
                      ELSE (SELECT max(made.id) FROM event_logs AS made
                            WHERE made.asset_key = event.asset_key AND made.partition = event.partition
                              AND made.dagster_event_type = 'ASSET_MATERIALIZATION') END))
       AND NOT EXISTS (SELECT FROM run_tags AS tag
                       WHERE tag.key IN ('dagster/root_run_id', 'dagster/parent_run_id')
                         AND tag.value = run.run_id)
       AND NOT EXISTS (SELECT FROM bulk_actions AS backfill
                       WHERE backfill.key = run.backfill_id
                         AND backfill.status IN ('REQUESTED', 'CANCELING', 'FAILING'))
FROM (SELECT id, run_id, backfill_id FROM runs
      WHERE id > %(after)s AND status IN ('SUCCESS', 'FAILURE', 'CANCELED')
        AND coalesce(to_timestamp(end_time), update_timestamp AT TIME ZONE 'UTC') < %(before)s
      ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED) AS run
ORDER BY run.id;

-- name: delete_event_tags
DELETE FROM asset_event_tags AS tag USING event_logs AS event
WHERE event.run_id = ANY(%(run_ids)s::text[]) AND event.asset_key IS NOT NULL AND tag.event_id = event.id;

-- name: delete_checks
DELETE FROM asset_check_executions WHERE run_id = ANY(%(run_ids)s::text[]);

-- name: delete_events
DELETE FROM event_logs WHERE run_id = ANY(%(run_ids)s::text[]);

-- name: delete_runs
-- With their tags, by the foreign key.
DELETE FROM runs WHERE run_id = ANY(%(run_ids)s::text[]) AND status IN ('SUCCESS', 'FAILURE', 'CANCELED')
RETURNING run_id;

-- name: runs_with_logs
-- Runs that ended before then, and whether they still have log lines.
SELECT run.id, run.run_id, run.status = 'FAILURE',
       EXISTS (SELECT FROM event_logs AS event
               WHERE event.run_id = run.run_id
                 AND (event.dagster_event_type IS NULL OR event.dagster_event_type <> ALL(
                      %(kept)s::text[] || CASE run.status WHEN 'FAILURE' THEN %(resumable)s::text[] END)))
FROM (SELECT id, run_id, status FROM runs
      WHERE id > %(after)s AND status IN ('SUCCESS', 'FAILURE', 'CANCELED')
        AND coalesce(to_timestamp(end_time), update_timestamp AT TIME ZONE 'UTC') < %(before)s
      ORDER BY id LIMIT %(limit)s) AS run
ORDER BY run.id;

-- name: delete_logs
DELETE FROM event_logs
WHERE run_id = ANY(%(run_ids)s::text[])
  AND (dagster_event_type IS NULL OR dagster_event_type <> ALL(%(kept)s::text[]));
