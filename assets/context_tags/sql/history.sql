-- What happened to one context: times and statuses, no text, no hash of one. Reads only, and only what
-- grants.sql gives: retry_count is asked for where we keep the states ourselves.

-- name: context
SELECT granary.now() AS now, request.requested_at, request.handled_at, request.text IS NOT NULL AS has_text,
       request.text_since, request.context_id IS NOT NULL AS is_requested,
       (request.requested_at AT TIME ZONE 'UTC')::date AS day,
       state.embedding_status, state.keyword_status, state.updated_at
FROM (SELECT %(context_id)s::bigint AS context_id) AS wanted
LEFT JOIN granary.context_request AS request USING (context_id)
LEFT JOIN ai.context_ai_state AS state USING (context_id);

-- name: retries
SELECT retry_count FROM ai.context_ai_state WHERE context_id = %(context_id)s;

-- name: embedding
SELECT updated_at, embedding_profile, is_deleted FROM ai.context_embedding WHERE context_id = %(context_id)s;

-- name: analysis
SELECT analysis.updated_at, analysis.preset_version, analysis.model_profile,
       (SELECT count(*) FROM ai.context_keyword AS keyword WHERE keyword.context_id = analysis.context_id) AS keywords,
       (SELECT max(version) FROM ai.keyword_preset WHERE is_active) AS version_now
FROM ai.context_keyword_analysis AS analysis WHERE analysis.context_id = %(context_id)s;
