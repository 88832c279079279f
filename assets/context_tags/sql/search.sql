-- name: nearest
-- Exact: a user has few contexts, and an index over all users' would lose some of them to the filters. NaN (a
-- vector of zeros) counts as greater than any number, so it is kept out.
WITH context AS MATERIALIZED (
    SELECT embedding.record_id, embedding.context_id,
           1 - (embedding.embedding <=> %(vector)b::vector) AS similarity
    FROM ai.context_embedding AS embedding
    JOIN ai.context_ai_state AS state USING (context_id)
    WHERE embedding.user_id = %(user_id)s AND NOT embedding.is_deleted
      AND embedding.embedding_profile = %(profile)s AND state.embedding_status = 'COMPLETED'
), record AS MATERIALIZED (
    SELECT DISTINCT ON (record_id) record_id, context_id, similarity FROM context
    WHERE similarity >= %(floor)s AND similarity <> 'NaN'
    ORDER BY record_id, similarity DESC, context_id
)
SELECT record_id, context_id, similarity FROM record
WHERE similarity >= %(share_of_best)s * (SELECT max(similarity) FROM record)
ORDER BY similarity DESC, context_id LIMIT %(limit)s;
