-- ai.context_keyword and ai.context_keyword_analysis, the application's tables.

-- name: delete
DELETE FROM ai.context_keyword WHERE context_id = ANY(%(ids)s::bigint[]);

-- name: insert
-- By keyword: the foreign key locks presets in this order, as the preset file's writing does.
INSERT INTO ai.context_keyword (context_id, keyword_id, confidence, preset_version)
SELECT context_id, keyword_id, round(confidence, 3), %(preset_version)s
FROM unnest(%(ids)s::bigint[], %(keyword_ids)s::integer[], %(confidences)s::float8[]::numeric[])
    AS selected (context_id, keyword_id, confidence)
ORDER BY keyword_id, context_id;

-- name: store_analysis
INSERT INTO ai.context_keyword_analysis
    (context_id, preset_version, unmatched_concepts, model_profile, updated_at)
SELECT context_id, %(preset_version)s, unmatched_concepts, nullif(left(model, 100), ''), granary.now()
FROM jsonb_to_recordset(%(analyses)s)
    AS made (context_id bigint, unmatched_concepts jsonb, model text)
ON CONFLICT (context_id) DO UPDATE
SET preset_version = excluded.preset_version, unmatched_concepts = excluded.unmatched_concepts,
    model_profile = excluded.model_profile, updated_at = excluded.updated_at;
