-- ai.keyword_preset, the application's table. Rows are never deleted: judgements refer to them.

-- name: one_at_a_time
SELECT pg_advisory_xact_lock(hashtext('ai.keyword_preset'));

-- name: lock
SELECT id FROM ai.keyword_preset ORDER BY id FOR UPDATE;

-- name: stored
-- The contract lets description, examples, visibility, is_active and version be NULL; no file says the like, so that
-- a file that names the preset differs from it and is written.
SELECT id, code, display_name, category, coalesce(description, ''), array_remove(coalesce(examples, '{}'), NULL),
       coalesce(visibility, ''), CASE WHEN embedding IS NOT NULL THEN embedding_profile END,
       coalesce(is_active, false), coalesce(version, 0)
FROM ai.keyword_preset ORDER BY id;

-- name: free_codes
-- Two presets may swap their codes, each of which only one may hold at any time.
UPDATE ai.keyword_preset SET code = ':' || id WHERE id = ANY(%(ids)s::integer[]);

-- name: write
INSERT INTO ai.keyword_preset
    (id, code, display_name, category, description, examples, visibility, is_active, version)
SELECT id, code, display_name, category, description, examples, visibility, true, %(version)s
FROM jsonb_to_recordset(%(presets)s)
    AS given (id integer, code text, display_name text, category text, description text, examples text[],
              visibility text)
ORDER BY id
ON CONFLICT (id) DO UPDATE
SET code = excluded.code, display_name = excluded.display_name, category = excluded.category,
    description = excluded.description, examples = excluded.examples, visibility = excluded.visibility,
    is_active = true, version = excluded.version;

-- name: write_vectors
UPDATE ai.keyword_preset AS preset SET embedding = made.embedding, embedding_profile = %(profile)s
FROM unnest(%(ids)s::integer[], %(vectors)b::vector[]) AS made (id, embedding)
WHERE preset.id = made.id;

-- name: deactivate
UPDATE ai.keyword_preset SET is_active = false WHERE is_active AND id <> ALL(%(ids)s::integer[])
RETURNING id;

-- name: can_judge
SELECT EXISTS (SELECT FROM ai.keyword_preset WHERE is_active AND visibility <> 'BLOCKED'
                  AND embedding IS NOT NULL AND embedding_profile = %(profile)s);

-- name: snapshot
SELECT id, code, display_name, category, coalesce(description, ''), array_remove(coalesce(examples, '{}'), NULL),
       visibility, coalesce(version, 0), embedding
FROM ai.keyword_preset
WHERE is_active AND visibility <> 'BLOCKED' AND embedding IS NOT NULL AND embedding_profile = %(profile)s
ORDER BY id;
