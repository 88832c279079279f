-- ai.context_embedding, the application's table. is_deleted is the application's alone.

-- name: store
-- A row that was deleted stays so: were is_deleted set here, its vector would come back.
INSERT INTO ai.context_embedding (context_id, user_id, record_id, embedding, embedding_profile, updated_at)
SELECT context_id, user_id, record_id, embedding, %(profile)s, granary.now()
FROM unnest(%(ids)s::bigint[], %(user_ids)s::bigint[], %(record_ids)s::bigint[], %(vectors)b::vector[])
    AS made (context_id, user_id, record_id, embedding)
ON CONFLICT (context_id) DO UPDATE
SET user_id = excluded.user_id, record_id = excluded.record_id, embedding = excluded.embedding,
    embedding_profile = excluded.embedding_profile, updated_at = excluded.updated_at;

-- name: vectors
SELECT context_id, embedding_profile, embedding FROM ai.context_embedding
WHERE context_id = ANY(%(ids)s::bigint[]);
