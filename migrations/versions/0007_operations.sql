-- economy_news in batches at half the price; what watching and clearing up need.

-- A batch from its plan to its end. Its row is written before anything reaches the provider, and the batch
-- carries its plan's id, so that a run that dies leaves nothing that is sent twice.
CREATE TABLE news.ai_batch (
    plan           text PRIMARY KEY,
    job_type       text NOT NULL
                   CHECK (job_type IN ('SUMMARY', 'TERM_CARDS', 'INSIGHT', 'QUIZ_CONTENT', 'QUIZ_TERM')),
    day            date NOT NULL,
    prompt_version text NOT NULL,
    model          text NOT NULL,
    status         text NOT NULL DEFAULT 'PLANNED'
                   CHECK (status IN ('PLANNED', 'SUBMITTED', 'TAKEN_IN', 'ABANDONED')),
    jobs           integer NOT NULL CHECK (jobs > 0),
    queued_tokens  bigint NOT NULL CHECK (queued_tokens >= 0),
    lines_sha256   text,
    input_file_id  text,
    batch_id       text UNIQUE,
    claimed_by     text,
    lease_until    timestamptz,
    planned_at     timestamptz NOT NULL,
    submitted_at   timestamptz,
    ended_at       timestamptz,
    reason         text,
    answers        jsonb,
    files_left     text[] NOT NULL DEFAULT '{}',
    CONSTRAINT ai_batch_submitted_has_an_id CHECK (status <> 'SUBMITTED' OR batch_id IS NOT NULL),
    CONSTRAINT ai_batch_ended_has_a_time CHECK ((status IN ('TAKEN_IN', 'ABANDONED')) = (ended_at IS NOT NULL)),
    CONSTRAINT ai_batch_lease_has_a_holder CHECK ((claimed_by IS NULL) = (lease_until IS NULL))
);
COMMENT ON TABLE news.ai_batch IS
    'Batches of economy_news. plan is our id, in the batch''s metadata at the provider; batch_id is the provider''s.';
COMMENT ON COLUMN news.ai_batch.day IS 'Of all its jobs: what it brings is shown by the partitions of one day.';
COMMENT ON COLUMN news.ai_batch.claimed_by IS 'The run that sends it or takes it in; with lease_until its claim.';
COMMENT ON COLUMN news.ai_batch.files_left IS 'Files at the provider that are still to be deleted.';
CREATE INDEX ai_batch_open ON news.ai_batch (planned_at) WHERE status IN ('PLANNED', 'SUBMITTED');
CREATE INDEX ai_batch_with_files ON news.ai_batch (plan) WHERE cardinality(files_left) > 0;

ALTER TABLE news.ai_job
    ADD COLUMN mode text NOT NULL DEFAULT 'live' CHECK (mode IN ('live', 'batch')),
    ADD COLUMN batch_plan text REFERENCES news.ai_batch ON DELETE SET NULL,
    ADD COLUMN asked_hash text,
    DROP CONSTRAINT ai_job_submitted_has_a_batch,
    ADD CONSTRAINT ai_job_submitted_has_a_batch CHECK (status <> 'SUBMITTED' OR batch_plan IS NOT NULL);
COMMENT ON COLUMN news.ai_job.mode IS 'Whether it is asked at once or waits for a batch; what is made from its result inherits it.';
COMMENT ON COLUMN news.ai_job.batch_plan IS 'The last batch that it was planned into; batch_id is that batch''s id at the provider.';
COMMENT ON COLUMN news.ai_job.asked_hash IS 'Of the text that its last batch asked about; it may have changed when the answer comes.';
CREATE INDEX ai_job_stopped ON news.ai_job (job_type, status) WHERE status IN ('SUSPENDED', 'FAILED');
CREATE INDEX ai_job_by_batch ON news.ai_job (batch_plan) WHERE batch_plan IS NOT NULL;

-- What a job of that kind reads: the body, the full summary that counts, or the cards that count.
CREATE FUNCTION news.text_asked_about(article bigint, kind text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE kind
        WHEN 'SUMMARY' THEN (SELECT source.body FROM news.article AS source WHERE source.id = article)
        WHEN 'QUIZ_TERM' THEN (
            SELECT string_agg(card.term || ': ' || card.definition, E'\n' ORDER BY card.position)
            FROM news.result_and_input(article, 'TERM_CARDS') AS result
            JOIN news.term_card AS card ON card.result_id = result.result_id)
        ELSE (
            SELECT summary.summary_full
            FROM news.result_and_input(article, 'SUMMARY') AS result
            JOIN news.summary AS summary ON summary.result_id = result.result_id)
        END
$$;

-- An alarm is written down in any case; a channel that was away is tried again.
ALTER TABLE granary.alert ADD COLUMN delivered_at timestamptz;
COMMENT ON COLUMN granary.alert.delivered_at IS
    'When what the row says was told. NULL: it is to be told. Before raised_at: it came back within the hour, and is told if it stays.';
UPDATE granary.alert SET delivered_at = coalesce(cleared_at, raised_at);
CREATE INDEX batch_reservation_open ON granary.batch_reservation (reserved_at) WHERE settled_at IS NULL;
