-- ai.context_ai_state, the application's table. One stage, one column, one UPDATE: never both columns in one.
-- Rows are locked in the order of their ids, so that no two of these statements wait for each other.

-- name: states
SELECT context_id, embedding_status, keyword_status FROM ai.context_ai_state
WHERE context_id = ANY(%(ids)s::bigint[]);

-- name: start_embedding
WITH startable AS MATERIALIZED (
    SELECT context_id, embedding_status = 'PROCESSING' AS was_expired FROM ai.context_ai_state
    WHERE context_id = ANY(%(ids)s::bigint[])
      AND (embedding_status = 'PENDING'
           OR (embedding_status = 'PROCESSING'
               AND updated_at < granary.now() - make_interval(secs => %(expiry_seconds)s)))
    ORDER BY context_id FOR UPDATE
)
UPDATE ai.context_ai_state AS state SET embedding_status = 'PROCESSING', updated_at = granary.now()
FROM startable
WHERE state.context_id = startable.context_id AND state.embedding_status IN ('PENDING', 'PROCESSING')
RETURNING state.context_id, state.updated_at, startable.was_expired;

-- name: start_keyword
WITH startable AS MATERIALIZED (
    SELECT context_id, keyword_status = 'PROCESSING' AS was_expired FROM ai.context_ai_state
    WHERE context_id = ANY(%(ids)s::bigint[]) AND embedding_status = 'COMPLETED'
      AND (keyword_status = 'PENDING'
           OR (keyword_status = 'PROCESSING'
               AND updated_at < granary.now() - make_interval(secs => %(expiry_seconds)s)))
    ORDER BY context_id FOR UPDATE
)
UPDATE ai.context_ai_state AS state SET keyword_status = 'PROCESSING', updated_at = granary.now()
FROM startable
WHERE state.context_id = startable.context_id AND state.keyword_status IN ('PENDING', 'PROCESSING')
RETURNING state.context_id, state.updated_at, startable.was_expired;

-- name: fail_embedding
WITH ours AS MATERIALIZED (
    SELECT state.context_id
    FROM unnest(%(ids)s::bigint[], %(tokens)s::timestamptz[]) AS claim (context_id, token)
    JOIN ai.context_ai_state AS state USING (context_id)
    WHERE state.embedding_status = 'PROCESSING' AND state.updated_at = claim.token
    ORDER BY state.context_id FOR UPDATE OF state
)
UPDATE ai.context_ai_state AS state SET embedding_status = 'FAILED', updated_at = granary.now()
FROM ours WHERE state.context_id = ours.context_id AND state.embedding_status = 'PROCESSING'
RETURNING state.context_id;

-- name: fail_keyword
WITH ours AS MATERIALIZED (
    SELECT state.context_id
    FROM unnest(%(ids)s::bigint[], %(tokens)s::timestamptz[]) AS claim (context_id, token)
    JOIN ai.context_ai_state AS state USING (context_id)
    WHERE state.keyword_status = 'PROCESSING' AND state.updated_at = claim.token
    ORDER BY state.context_id FOR UPDATE OF state
)
UPDATE ai.context_ai_state AS state SET keyword_status = 'FAILED', updated_at = granary.now()
FROM ours WHERE state.context_id = ours.context_id AND state.keyword_status = 'PROCESSING'
RETURNING state.context_id;

-- name: lock_keyword
-- Those whose keyword stage is still ours; held until the transaction ends.
SELECT state.context_id
FROM unnest(%(ids)s::bigint[], %(tokens)s::timestamptz[]) AS claim (context_id, token)
JOIN ai.context_ai_state AS state USING (context_id)
WHERE state.embedding_status = 'COMPLETED' AND state.keyword_status = 'PROCESSING'
  AND state.updated_at = claim.token
ORDER BY state.context_id FOR UPDATE OF state;

-- name: complete_keyword
UPDATE ai.context_ai_state SET keyword_status = 'COMPLETED', updated_at = granary.now()
WHERE context_id = ANY(%(ids)s::bigint[]) AND embedding_status = 'COMPLETED' AND keyword_status = 'PROCESSING'
RETURNING context_id;

-- name: missing
-- What of the contract's tables is not there, or there but not granted to the role of this connection.
WITH needed (name, privilege, columns, with_own_state_only) AS (VALUES
    ('keyword_preset', 'SELECT', '{id,code,display_name,category,description,examples,embedding,embedding_profile,
                                   visibility,is_active,version}'::text[], false),
    ('keyword_preset', 'INSERT', '{id,code,display_name,category,description,examples,embedding,embedding_profile,
                                   visibility,is_active,version}', false),
    ('keyword_preset', 'UPDATE', '{code,display_name,category,description,examples,embedding,embedding_profile,
                                   visibility,is_active,version}', false),
    ('context_ai_state', 'SELECT', '{context_id,embedding_status,keyword_status,updated_at}', false),
    ('context_ai_state', 'UPDATE', '{embedding_status,keyword_status,updated_at}', false),
    ('context_ai_state', 'SELECT', '{retry_count}', true),
    ('context_ai_state', 'UPDATE', '{retry_count}', true),
    ('context_ai_state', 'INSERT', '{context_id,updated_at}', true),
    ('context_embedding', 'SELECT', '{context_id,user_id,record_id,embedding,embedding_profile,is_deleted,
                                      updated_at}', false),
    ('context_embedding', 'INSERT', '{context_id,user_id,record_id,embedding,embedding_profile,updated_at}', false),
    ('context_embedding', 'UPDATE', '{user_id,record_id,embedding,embedding_profile,updated_at}', false),
    ('context_embedding', 'DELETE', '{}', false),
    ('context_keyword', 'SELECT', '{context_id,keyword_id,confidence,preset_version}', false),
    ('context_keyword', 'INSERT', '{context_id,keyword_id,confidence,preset_version}', false),
    ('context_keyword', 'DELETE', '{}', false),
    ('context_keyword_analysis', 'SELECT', '{context_id,preset_version,unmatched_concepts,model_profile,
                                             updated_at}', false),
    ('context_keyword_analysis', 'INSERT', '{context_id,preset_version,unmatched_concepts,model_profile,
                                             updated_at}', false),
    ('context_keyword_analysis', 'UPDATE', '{preset_version,unmatched_concepts,model_profile,updated_at}', false),
    ('context_keyword_analysis', 'DELETE', '{}', false)
), known AS (
    SELECT needed.*, class.oid FROM needed
    LEFT JOIN pg_catalog.pg_class AS class
        ON class.relname = needed.name AND class.relnamespace = to_regnamespace('ai')
        AND class.relkind IN ('r', 'p', 'v', 'f')
    WHERE %(own_state)s OR NOT with_own_state_only
), by_column AS (
    SELECT known.*, wanted.name AS column_name, attribute.attnum
    FROM known
    CROSS JOIN unnest(known.columns) AS wanted (name)
    LEFT JOIN pg_catalog.pg_attribute AS attribute
        ON attribute.attrelid = known.oid AND attribute.attname = wanted.name AND NOT attribute.attisdropped
    WHERE known.oid IS NOT NULL
)
SELECT 'schema ai: no USAGE' WHERE NOT has_schema_privilege(to_regnamespace('ai')::oid, 'USAGE')
UNION
SELECT 'ai.' || name || ': no such table' FROM known WHERE oid IS NULL
UNION
SELECT 'ai.' || name || ': no DELETE' FROM known
WHERE oid IS NOT NULL AND privilege = 'DELETE' AND NOT has_table_privilege(oid, 'DELETE')
UNION
SELECT 'ai.' || name || '.' || column_name || ': no such column' FROM by_column WHERE attnum IS NULL
UNION
SELECT 'ai.' || name || '.' || column_name || ': no ' || privilege FROM by_column
WHERE attnum IS NOT NULL AND NOT has_column_privilege(oid, attnum, privilege)
ORDER BY 1;
