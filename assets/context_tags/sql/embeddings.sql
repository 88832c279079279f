-- ai.context_embedding, the application's table. is_deleted is the application's alone.

-- name: store
-- Locked, looked at once more, stored and COMPLETED in one statement, so in one transaction and one round trip. A row
-- that was deleted stays so: were is_deleted set here, its vector would come back. IS TRUE keeps the planner from
-- the index of the status: it takes few to be PROCESSING, and would go through all that are for each context.
WITH ours AS MATERIALIZED (
    SELECT state.context_id
    FROM unnest(%(ids)s::bigint[], %(tokens)s::timestamptz[]) AS claim (context_id, token)
    JOIN ai.context_ai_state AS state USING (context_id)
    WHERE (state.embedding_status = 'PROCESSING') IS TRUE AND state.updated_at = claim.token
    ORDER BY state.context_id FOR UPDATE OF state
), stored AS (
    INSERT INTO ai.context_embedding (context_id, user_id, record_id, embedding, embedding_profile, updated_at)
    SELECT context_id, user_id, record_id, embedding, %(profile)s, granary.now()
    FROM unnest(%(ids)s::bigint[], %(user_ids)s::bigint[], %(record_ids)s::bigint[], %(vectors)b::vector[])
        AS made (context_id, user_id, record_id, embedding)
    JOIN ours USING (context_id)
    ON CONFLICT (context_id) DO UPDATE
    SET user_id = excluded.user_id, record_id = excluded.record_id, embedding = excluded.embedding,
        embedding_profile = excluded.embedding_profile, updated_at = excluded.updated_at
)
UPDATE ai.context_ai_state AS state SET embedding_status = 'COMPLETED', updated_at = granary.now()
FROM ours WHERE state.context_id = ours.context_id AND (state.embedding_status = 'PROCESSING') IS TRUE
RETURNING state.context_id;

-- name: vectors
SELECT context_id, embedding_profile, embedding FROM ai.context_embedding
WHERE context_id = ANY(%(ids)s::bigint[]);
