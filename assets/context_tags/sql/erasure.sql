-- name: delete_requests
-- First, so that its ids are all that may still be worked on: a request that comes later is one after this.
WITH of_user AS MATERIALIZED (
    SELECT context_id FROM granary.context_request WHERE user_id = %(user_id)s ORDER BY context_id FOR UPDATE
)
DELETE FROM granary.context_request AS request USING of_user
WHERE request.context_id = of_user.context_id AND request.user_id = %(user_id)s
RETURNING request.context_id;

-- name: embedded
SELECT context_id FROM ai.context_embedding WHERE user_id = %(user_id)s;

-- name: lock_states
SELECT context_id FROM ai.context_ai_state WHERE context_id = ANY(%(ids)s::bigint[])
ORDER BY context_id FOR UPDATE;

-- name: cancel_embedding
UPDATE ai.context_ai_state SET embedding_status = 'CANCELLED', updated_at = granary.now()
WHERE context_id = ANY(%(ids)s::bigint[]) AND embedding_status IN ('PENDING', 'PROCESSING')
RETURNING context_id;

-- name: cancel_keyword
UPDATE ai.context_ai_state SET keyword_status = 'CANCELLED', updated_at = granary.now()
WHERE context_id = ANY(%(ids)s::bigint[]) AND keyword_status IN ('PENDING', 'PROCESSING')
RETURNING context_id;

-- name: delete_embeddings
DELETE FROM ai.context_embedding WHERE user_id = %(user_id)s;

-- name: delete_keywords
DELETE FROM ai.context_keyword WHERE context_id = ANY(%(ids)s::bigint[]);

-- name: delete_analyses
DELETE FROM ai.context_keyword_analysis WHERE context_id = ANY(%(ids)s::bigint[]);
