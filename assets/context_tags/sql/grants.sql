-- What the role of Granary needs where the schema ai belongs to the application. Replace granary_role by its name
-- and run it as the owner of the schema. It gives no UPDATE of retry_count and is_deleted, and no DDL.

GRANT USAGE ON SCHEMA ai TO granary_role;

GRANT SELECT (id, code, display_name, category, description, examples, embedding, embedding_profile,
              visibility, is_active, version),
      INSERT (id, code, display_name, category, description, examples, embedding, embedding_profile,
              visibility, is_active, version),
      UPDATE (code, display_name, category, description, examples, embedding, embedding_profile,
              visibility, is_active, version)
    ON ai.keyword_preset TO granary_role;

GRANT SELECT (context_id, embedding_status, keyword_status, updated_at),
      UPDATE (embedding_status, keyword_status, updated_at)
    ON ai.context_ai_state TO granary_role;

-- DELETE, here and below: an erasure; keywords are also replaced as a set.
GRANT SELECT (context_id, user_id, record_id, embedding, embedding_profile, is_deleted, updated_at),
      INSERT (context_id, user_id, record_id, embedding, embedding_profile, updated_at),
      UPDATE (user_id, record_id, embedding, embedding_profile, updated_at),
      DELETE
    ON ai.context_embedding TO granary_role;

GRANT SELECT (context_id, keyword_id, confidence, preset_version),
      INSERT (context_id, keyword_id, confidence, preset_version),
      DELETE
    ON ai.context_keyword TO granary_role;

GRANT SELECT (context_id, preset_version, unmatched_concepts, model_profile, updated_at),
      INSERT (context_id, preset_version, unmatched_concepts, model_profile, updated_at),
      UPDATE (preset_version, unmatched_concepts, model_profile, updated_at),
      DELETE
    ON ai.context_keyword_analysis TO granary_role;
