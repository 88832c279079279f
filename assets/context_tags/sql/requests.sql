-- granary.context_request, the inbox. It waits where it was never handled, or posted again since: the predicate
-- of an index. Rows are locked in the order of their ids.

-- name: with_new_state
-- CONTEXT_OWN_STATE only; the beginning of `accept`. A default is named by leaving its column out.
WITH made AS (
    INSERT INTO ai.context_ai_state (context_id, updated_at) VALUES (%(context_id)s, granary.now())
    ON CONFLICT (context_id) DO NOTHING
)

-- name: accept
-- Another text than before is taken only while a stage of the context is PENDING. The time of each attempt is
-- later than that of the one before and than its end, also where this statement waited for either.
INSERT INTO granary.context_request AS known
    (context_id, user_id, record_id, text, text_hmac, place_meta, requested_at, text_since)
VALUES (%(context_id)s, %(user_id)s, %(record_id)s, %(text)s, %(text_hmac)s, %(place_meta)s, granary.now(),
        granary.now())
ON CONFLICT (context_id) DO UPDATE
SET (user_id, record_id, text, text_hmac, place_meta, text_since) = (
        SELECT CASE WHEN taken THEN excluded.user_id ELSE known.user_id END,
               CASE WHEN taken THEN excluded.record_id ELSE known.record_id END,
               CASE WHEN taken THEN excluded.text ELSE known.text END,
               CASE WHEN taken THEN excluded.text_hmac ELSE known.text_hmac END,
               CASE WHEN taken THEN excluded.place_meta ELSE known.place_meta END,
               CASE WHEN taken THEN excluded.text_since ELSE known.text_since END
        FROM (SELECT known.text_hmac = excluded.text_hmac OR NOT EXISTS (
                  SELECT FROM ai.context_ai_state AS state
                  WHERE state.context_id = excluded.context_id
                    AND 'PENDING' NOT IN (state.embedding_status, state.keyword_status)) AS taken) AS _),
    requested_at = greatest(granary.now(), known.requested_at + interval '1 microsecond',
                            known.handled_at + interval '1 microsecond')
RETURNING text_hmac, (SELECT before.text_hmac FROM granary.context_request AS before
                      WHERE before.context_id = %(context_id)s);

-- name: waiting
SELECT context_id, user_id, record_id, text, requested_at FROM granary.context_request
WHERE (handled_at IS NULL OR handled_at < requested_at) AND text IS NOT NULL
  AND (%(days)s::date[] IS NULL OR (requested_at AT TIME ZONE 'UTC')::date = ANY(%(days)s::date[]))
ORDER BY requested_at, context_id LIMIT %(limit)s;

-- name: days_waiting
SELECT (requested_at AT TIME ZONE 'UTC')::date AS day, count(*) FROM granary.context_request
WHERE (handled_at IS NULL OR handled_at < requested_at) AND text IS NOT NULL
GROUP BY day ORDER BY day;

-- name: handled
-- One that was posted again since goes on waiting.
WITH done AS MATERIALIZED (
    SELECT request.context_id, EXISTS (
        SELECT FROM ai.context_ai_state AS state
        WHERE state.context_id = request.context_id
          AND state.embedding_status IN ('COMPLETED', 'FAILED', 'CANCELLED')
          AND state.keyword_status IN ('COMPLETED', 'FAILED', 'CANCELLED')) AS is_final
    FROM unnest(%(ids)s::bigint[], %(requested_at)s::timestamptz[]) AS attempt (context_id, requested_at)
    JOIN granary.context_request AS request USING (context_id, requested_at)
    ORDER BY request.context_id FOR UPDATE OF request
)
UPDATE granary.context_request AS request
SET handled_at = greatest(granary.now(), request.requested_at),
    text = CASE WHEN done.is_final THEN NULL ELSE request.text END,
    place_meta = CASE WHEN done.is_final THEN NULL ELSE request.place_meta END
FROM done WHERE request.context_id = done.context_id
RETURNING request.context_id;

-- name: handle_without_text
WITH cleared AS MATERIALIZED (
    SELECT context_id FROM granary.context_request
    WHERE (handled_at IS NULL OR handled_at < requested_at) AND text IS NULL
    ORDER BY context_id FOR UPDATE
)
UPDATE granary.context_request AS request SET handled_at = greatest(granary.now(), request.requested_at)
FROM cleared WHERE request.context_id = cleared.context_id AND request.text IS NULL
RETURNING request.context_id;

-- name: lock_forgettable
-- The beginning of `forget`. What comes of a wait for a row is judged by the states as they were before it, in
-- which a text for a redo is still one of a context that is over: so the next statement looks at them anew.
SELECT request.context_id FROM granary.context_request AS request
LEFT JOIN ai.context_ai_state AS state USING (context_id)
WHERE request.text IS NOT NULL
  AND (request.text_since < granary.now() - interval '24 hours'
       OR (state.embedding_status IN ('COMPLETED', 'FAILED', 'CANCELLED')
           AND state.keyword_status IN ('COMPLETED', 'FAILED', 'CANCELLED')))
ORDER BY request.context_id FOR UPDATE OF request;

-- name: forget
UPDATE granary.context_request AS forgotten SET text = NULL, place_meta = NULL
FROM granary.context_request AS request LEFT JOIN ai.context_ai_state AS state USING (context_id)
WHERE forgotten.context_id = request.context_id AND request.context_id = ANY(%(ids)s::bigint[])
  AND request.text IS NOT NULL
  AND (request.text_since < granary.now() - interval '24 hours'
       OR (state.embedding_status IN ('COMPLETED', 'FAILED', 'CANCELLED')
           AND state.keyword_status IN ('COMPLETED', 'FAILED', 'CANCELLED')))
RETURNING forgotten.context_id;

-- name: overdue_texts
SELECT count(*) FROM granary.context_request AS request
LEFT JOIN ai.context_ai_state AS state USING (context_id)
WHERE request.text IS NOT NULL
  AND (request.text_since < granary.now() - interval '24 hours'
       OR (request.handled_at >= request.requested_at
           AND state.embedding_status IN ('COMPLETED', 'FAILED', 'CANCELLED')
           AND state.keyword_status IN ('COMPLETED', 'FAILED', 'CANCELLED')));

-- name: counts_by_day
SELECT wanted.day, count(request.context_id),
       count(*) FILTER (WHERE (request.handled_at IS NULL OR request.handled_at < request.requested_at)
                              AND request.text IS NOT NULL),
       count(*) FILTER (WHERE state.embedding_status = 'COMPLETED'),
       count(*) FILTER (WHERE state.keyword_status = 'COMPLETED'),
       count(*) FILTER (WHERE 'FAILED' IN (state.embedding_status, state.keyword_status)),
       count(*) FILTER (WHERE 'CANCELLED' IN (state.embedding_status, state.keyword_status)),
       count(request.text),
       count(request.context_id) FILTER (WHERE state.context_id IS NULL)
FROM unnest(%(days)s::date[]) AS wanted (day)
LEFT JOIN granary.context_request AS request
    ON request.requested_at >= wanted.day::timestamp AT TIME ZONE 'UTC'
   AND request.requested_at < (wanted.day + 1)::timestamp AT TIME ZONE 'UTC'
LEFT JOIN ai.context_ai_state AS state USING (context_id)
GROUP BY wanted.day;
