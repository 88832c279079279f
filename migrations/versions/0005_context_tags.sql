-- context_tags: the inbox, and the application's tables where it has not made them itself.

CREATE TABLE granary.context_request (
    context_id   bigint PRIMARY KEY CHECK (context_id > 0),
    user_id      bigint NOT NULL CHECK (user_id > 0),
    record_id    bigint NOT NULL CHECK (record_id > 0),
    text         text CHECK (text <> ''),
    text_hmac    text NOT NULL,
    place_meta   jsonb,
    requested_at timestamptz NOT NULL,
    handled_at   timestamptz,
    text_since   timestamptz,
    CHECK (text IS NULL OR text_since IS NOT NULL)
);
COMMENT ON TABLE granary.context_request IS
    'The inbox of context_tags. text and place_meta are null once both stages are final, and a day after text_since in any case.';
CREATE INDEX context_request_waiting ON granary.context_request (requested_at)
    WHERE handled_at IS NULL OR handled_at < requested_at;
CREATE INDEX context_request_with_text ON granary.context_request (text_since) WHERE text IS NOT NULL;
CREATE INDEX context_request_by_user ON granary.context_request (user_id);
CREATE INDEX context_request_by_time ON granary.context_request (requested_at);

-- The application ("core") owns these five and may have made them, as another role: then they are left as they are.
DO $$
DECLARE
    there integer := (
        SELECT count(*) FROM pg_catalog.pg_class AS class
        JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
        WHERE namespace.nspname = 'ai' AND class.relkind IN ('r', 'p', 'v', 'f')
          AND class.relname IN ('keyword_preset', 'context_ai_state', 'context_embedding', 'context_keyword',
                                'context_keyword_analysis'));
BEGIN
    IF there = 5 THEN
        RETURN;
    ELSIF there > 0 THEN
        RAISE EXCEPTION 'the schema ai has % of the five tables of context_tags: let the application make the others, or drop these', there;
    END IF;

    CREATE SCHEMA IF NOT EXISTS ai;
    CREATE TABLE ai.keyword_preset (
        id                integer PRIMARY KEY,
        code              varchar(50) NOT NULL,
        display_name      varchar(50) NOT NULL,
        category          varchar(30) NOT NULL,
        description       text NOT NULL,
        examples          text[] NOT NULL DEFAULT '{}',
        embedding         vector(1536),
        embedding_profile varchar(100),
        visibility        varchar(20) NOT NULL DEFAULT 'PUBLIC'
                          CHECK (visibility IN ('PUBLIC', 'PRIVATE_ONLY', 'BLOCKED')),
        is_active         boolean NOT NULL DEFAULT true,
        version           integer NOT NULL DEFAULT 1,
        CONSTRAINT keyword_preset_code_once UNIQUE (code)
    );
    CREATE TABLE ai.context_ai_state (
        context_id       bigint PRIMARY KEY,
        embedding_status varchar(20) NOT NULL DEFAULT 'PENDING'
                         CHECK (embedding_status IN ('PENDING', 'PROCESSING', 'COMPLETED', 'FAILED', 'CANCELLED')),
        keyword_status   varchar(20) NOT NULL DEFAULT 'PENDING'
                         CHECK (keyword_status IN ('PENDING', 'PROCESSING', 'COMPLETED', 'FAILED', 'CANCELLED')),
        retry_count      integer NOT NULL DEFAULT 0 CHECK (retry_count BETWEEN 0 AND 3),
        updated_at       timestamptz NOT NULL DEFAULT now()
    );
    CREATE INDEX context_ai_state_by_embedding ON ai.context_ai_state (embedding_status, updated_at);
    CREATE INDEX context_ai_state_by_keyword ON ai.context_ai_state (keyword_status, updated_at);
    CREATE TABLE ai.context_embedding (
        context_id        bigint PRIMARY KEY,
        user_id           bigint NOT NULL,
        record_id         bigint NOT NULL,
        embedding         vector(1536) NOT NULL,
        embedding_profile varchar(100) NOT NULL,
        is_deleted        boolean NOT NULL DEFAULT false,
        updated_at        timestamptz NOT NULL DEFAULT now()
    );
    CREATE INDEX context_embedding_by_user ON ai.context_embedding (user_id, is_deleted);
    CREATE INDEX context_embedding_by_record ON ai.context_embedding (record_id);
    CREATE TABLE ai.context_keyword (
        context_id     bigint NOT NULL,
        keyword_id     integer NOT NULL REFERENCES ai.keyword_preset,
        confidence     numeric(4, 3) CHECK (confidence BETWEEN 0 AND 1),
        preset_version integer NOT NULL,
        PRIMARY KEY (context_id, keyword_id)
    );
    CREATE INDEX context_keyword_by_keyword ON ai.context_keyword (keyword_id);
    CREATE TABLE ai.context_keyword_analysis (
        context_id         bigint PRIMARY KEY,
        preset_version     integer NOT NULL,
        unmatched_concepts jsonb NOT NULL DEFAULT '[]',
        model_profile      varchar(100),
        updated_at         timestamptz NOT NULL DEFAULT now()
    );
END
$$;
