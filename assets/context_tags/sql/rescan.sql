-- What the application does otherwise (CONTEXT_OWN_STATE only): PENDING for more than 5 minutes and PROCESSING for
-- more than 10 are stuck. A keyword stage waits for its embedding, and is looked at once that is COMPLETED. What was
-- asked for lately is left to the run that it starts; 4 minutes, so that a tick that comes early counts too.

-- name: lock_stuck_requests
-- Requests before states, as an erasure does.
SELECT request.context_id FROM granary.context_request AS request
JOIN ai.context_ai_state AS state USING (context_id)
CROSS JOIN LATERAL (SELECT CASE WHEN state.embedding_status = 'COMPLETED' THEN state.keyword_status
                                ELSE state.embedding_status END AS status) AS current
WHERE state.retry_count < 3
  AND ((current.status = 'PENDING' AND state.updated_at < granary.now() - interval '5 minutes')
       OR (current.status = 'PROCESSING' AND state.updated_at < granary.now() - interval '10 minutes'))
  AND request.requested_at <= granary.now() - interval '4 minutes'
ORDER BY request.context_id FOR UPDATE OF request;

-- name: count_retry
-- The time of a PROCESSING stage stays, since its expiry is counted from it.
WITH stuck AS MATERIALIZED (
    SELECT state.context_id, current.status FROM ai.context_ai_state AS state
    CROSS JOIN LATERAL (SELECT CASE WHEN state.embedding_status = 'COMPLETED' THEN state.keyword_status
                                    ELSE state.embedding_status END AS status) AS current
    WHERE state.retry_count < 3
      AND ((current.status = 'PENDING' AND state.updated_at < granary.now() - interval '5 minutes')
           OR (current.status = 'PROCESSING' AND state.updated_at < granary.now() - interval '10 minutes'))
      AND NOT EXISTS (SELECT FROM granary.context_request AS request
                      WHERE request.context_id = state.context_id
                        AND request.requested_at > granary.now() - interval '4 minutes')
    ORDER BY state.context_id FOR UPDATE OF state
)
UPDATE ai.context_ai_state AS state
SET retry_count = state.retry_count + 1,
    updated_at = CASE WHEN stuck.status = 'PENDING' THEN granary.now() ELSE state.updated_at END
FROM stuck WHERE state.context_id = stuck.context_id AND state.retry_count < 3
RETURNING state.context_id;

-- name: resend
UPDATE granary.context_request
SET requested_at = greatest(granary.now(), requested_at + interval '1 microsecond',
                            handled_at + interval '1 microsecond')
WHERE context_id = ANY(%(ids)s::bigint[]);

-- name: finalise_embedding
WITH spent AS MATERIALIZED (
    SELECT context_id FROM ai.context_ai_state AS state
    WHERE retry_count >= 3
      AND ((embedding_status = 'PENDING' AND updated_at < granary.now() - interval '5 minutes')
           OR (embedding_status = 'PROCESSING' AND updated_at < granary.now() - interval '10 minutes'))
      AND NOT EXISTS (SELECT FROM granary.context_request AS request
                      WHERE request.context_id = state.context_id
                        AND request.requested_at > granary.now() - interval '4 minutes')
    ORDER BY context_id FOR UPDATE
)
UPDATE ai.context_ai_state AS state SET embedding_status = 'FAILED', updated_at = granary.now()
FROM spent WHERE state.context_id = spent.context_id AND state.embedding_status IN ('PENDING', 'PROCESSING')
RETURNING state.context_id;

-- name: finalise_keyword
-- Also where it can never start: its embedding has FAILED, by us or just now.
WITH spent AS MATERIALIZED (
    SELECT context_id FROM ai.context_ai_state AS state
    WHERE (keyword_status = 'PENDING' AND embedding_status = 'FAILED')
       OR (retry_count >= 3 AND embedding_status = 'COMPLETED'
           AND ((keyword_status = 'PENDING' AND updated_at < granary.now() - interval '5 minutes')
                OR (keyword_status = 'PROCESSING' AND updated_at < granary.now() - interval '10 minutes'))
           AND NOT EXISTS (SELECT FROM granary.context_request AS request
                           WHERE request.context_id = state.context_id
                             AND request.requested_at > granary.now() - interval '4 minutes'))
    ORDER BY context_id FOR UPDATE
)
UPDATE ai.context_ai_state AS state SET keyword_status = 'FAILED', updated_at = granary.now()
FROM spent WHERE state.context_id = spent.context_id AND state.keyword_status IN ('PENDING', 'PROCESSING')
RETURNING state.context_id;

-- name: is_due
-- Whether any of these statements would find a row.
SELECT EXISTS (
    SELECT FROM ai.context_ai_state AS state
    CROSS JOIN LATERAL (SELECT CASE WHEN state.embedding_status = 'COMPLETED' THEN state.keyword_status
                                    ELSE state.embedding_status END AS status) AS current
    WHERE (state.embedding_status IN ('PENDING', 'PROCESSING') OR state.keyword_status IN ('PENDING', 'PROCESSING'))
      AND ((current.status = 'PENDING' AND state.updated_at < granary.now() - interval '5 minutes')
           OR (current.status = 'PROCESSING' AND state.updated_at < granary.now() - interval '10 minutes'))
      AND NOT EXISTS (SELECT FROM granary.context_request AS request
                      WHERE request.context_id = state.context_id
                        AND request.requested_at > granary.now() - interval '4 minutes'))
    OR EXISTS (SELECT FROM ai.context_ai_state WHERE keyword_status = 'PENDING' AND embedding_status = 'FAILED');
