-- economy_news: listed pages, articles, AI jobs and their results.

CREATE SCHEMA news;
COMMENT ON SCHEMA news IS 'The pipeline economy_news.';

CREATE TABLE news.article (
    id                   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    oid                  text NOT NULL CHECK (oid ~ '^[0-9]{3}$'),
    aid                  text NOT NULL CHECK (aid ~ '^[0-9]{10}$'),
    day                  date NOT NULL,
    section              text NOT NULL,
    url                  text NOT NULL,
    title                text NOT NULL,
    body                 text NOT NULL,
    body_characters      integer NOT NULL,
    input_hash           text NOT NULL,
    published_at         timestamptz,
    modified_at          timestamptz,
    press                text,
    reporter             text,
    thumbnail_url        text,
    similarity_signature bytea NOT NULL,
    duplicate_of         bigint REFERENCES news.article,
    crawl_permission     text,
    run_id               text NOT NULL,
    stored_at            timestamptz NOT NULL,
    body_emptied_at      timestamptz,
    completed_at         timestamptz,
    CONSTRAINT article_is_stored_once UNIQUE (oid, aid),
    CONSTRAINT article_is_no_duplicate_of_itself CHECK (duplicate_of <> id)
);
COMMENT ON COLUMN news.article.day IS 'The date of the list page that the article was found on, Asia/Seoul.';
COMMENT ON COLUMN news.article.section IS 'The section that stored the article first.';
COMMENT ON COLUMN news.article.completed_at IS 'When the last of its five results was stored for the first time.';
CREATE INDEX article_by_partition ON news.article (day, section);
CREATE INDEX article_by_original ON news.article (duplicate_of) WHERE duplicate_of IS NOT NULL;

CREATE TABLE news.article_section (
    article_id bigint NOT NULL REFERENCES news.article ON DELETE CASCADE,
    section    text NOT NULL,
    PRIMARY KEY (article_id, section)
);

-- Every link seen on a list, written before the first of them is fetched: a crawl that dies half-way
-- would otherwise hide the older half behind the "already seen" streak of the next one.
CREATE TABLE news.listed_page (
    oid       text NOT NULL,
    aid       text NOT NULL,
    section   text NOT NULL,
    day       date NOT NULL,
    position  integer NOT NULL,
    status    text NOT NULL DEFAULT 'LISTED'
              CHECK (status IN ('LISTED', 'STORED', 'GONE', 'MOVED', 'PARSE_FAILED', 'FETCH_FAILED', 'TAKEN_DOWN')),
    passes    integer NOT NULL DEFAULT 0,
    reason    text,
    listed_at timestamptz NOT NULL,
    looked_at timestamptz,
    PRIMARY KEY (oid, aid, section)
);
CREATE INDEX listed_page_by_partition ON news.listed_page (day, section);
CREATE INDEX listed_page_looked_at ON news.listed_page (looked_at);
CREATE INDEX listed_page_waiting ON news.listed_page (day, section)
    WHERE status IN ('LISTED', 'PARSE_FAILED', 'FETCH_FAILED');

-- Lists of past days that were read to their end: a backfill that works in slices reads each once.
CREATE TABLE news.read_list (
    day     date NOT NULL,
    section text NOT NULL,
    read_at timestamptz NOT NULL,
    PRIMARY KEY (day, section)
);

CREATE TABLE news.ai_job (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    article_id      bigint NOT NULL REFERENCES news.article ON DELETE CASCADE,
    job_type        text NOT NULL
                    CHECK (job_type IN ('SUMMARY', 'TERM_CARDS', 'INSIGHT', 'QUIZ_CONTENT', 'QUIZ_TERM')),
    prompt_version  text NOT NULL,
    model           text NOT NULL,
    input_hash      text NOT NULL,
    day             date NOT NULL,
    section         text NOT NULL,
    status          text NOT NULL DEFAULT 'PENDING'
                    CHECK (status IN ('PENDING', 'RUNNING', 'SUBMITTED', 'SUCCESS', 'RETRY_WAIT', 'SUSPENDED', 'FAILED')),
    attempt         integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    claimed_by      text,
    lease_until     timestamptz,
    next_run_at     timestamptz,
    suspend_reason  text CHECK (suspend_reason IN ('QUOTA', 'AUTH', 'MODEL')),
    batch_id        text,
    redo_number     integer NOT NULL DEFAULT 0,
    error_code      text,
    error_message   text,
    created_at      timestamptz NOT NULL,
    asked_at        timestamptz NOT NULL DEFAULT granary.now(),
    settled_at      timestamptz,
    CONSTRAINT ai_job_is_asked_once UNIQUE (article_id, job_type, prompt_version, model, input_hash),
    CONSTRAINT ai_job_running_has_a_lease
        CHECK ((status = 'RUNNING') = (lease_until IS NOT NULL) AND (status <> 'RUNNING' OR claimed_by IS NOT NULL)),
    CONSTRAINT ai_job_retry_has_a_due_time CHECK ((status = 'RETRY_WAIT') = (next_run_at IS NOT NULL)),
    CONSTRAINT ai_job_suspended_has_a_reason CHECK ((status = 'SUSPENDED') = (suspend_reason IS NOT NULL)),
    CONSTRAINT ai_job_submitted_has_a_batch CHECK (status <> 'SUBMITTED' OR batch_id IS NOT NULL)
);
COMMENT ON COLUMN news.ai_job.attempt IS 'Claims since it was asked for that counted; with claimed_by the token that a finish must show.';
COMMENT ON COLUMN news.ai_job.prompt_version IS 'With model and input_hash what it was made to ask; what was asked in the end is on its result.';
COMMENT ON COLUMN news.ai_job.asked_at IS 'When it was made or last asked for again; of two of a kind the one asked for later counts.';
COMMENT ON COLUMN news.ai_job.redo_number IS 'How often somebody asked to have it done again; each time has a result of its own.';
COMMENT ON COLUMN news.ai_job.claimed_by IS 'The run that claimed it last; kept after the finish.';
CREATE INDEX ai_job_waiting ON news.ai_job (job_type, day, section, id)
    WHERE status IN ('PENDING', 'RETRY_WAIT', 'RUNNING');
CREATE INDEX ai_job_by_partition ON news.ai_job (day, section);
CREATE INDEX ai_job_by_article ON news.ai_job (article_id, job_type, asked_at DESC, id DESC);
CREATE INDEX ai_job_by_run ON news.ai_job (claimed_by) WHERE claimed_by IS NOT NULL;

-- Where each result comes from: what every result of an article refers to.
CREATE TABLE news.ai_result (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id         bigint NOT NULL REFERENCES news.ai_job ON DELETE CASCADE,
    redo_number    integer NOT NULL,
    article_id     bigint NOT NULL REFERENCES news.article ON DELETE CASCADE,
    job_type       text NOT NULL,
    model          text NOT NULL,
    prompt_version text NOT NULL,
    input_hash     text NOT NULL,
    output_hash    text NOT NULL,
    input_tokens   integer NOT NULL,
    cached_tokens  integer NOT NULL,
    output_tokens  integer NOT NULL,
    cost_usd       numeric(14, 8) NOT NULL,
    ai_generated   boolean NOT NULL DEFAULT true CHECK (ai_generated),
    original_url   text NOT NULL,
    run_id         text NOT NULL,
    asked_at       timestamptz NOT NULL,
    created_at     timestamptz NOT NULL,
    CONSTRAINT ai_result_is_stored_once UNIQUE (job_id, redo_number)
);
COMMENT ON COLUMN news.ai_result.output_hash IS 'The input_hash of the results that are made from this one.';
CREATE INDEX ai_result_by_article ON news.ai_result (article_id, job_type, asked_at DESC, job_id DESC);

CREATE TABLE news.summary (
    result_id           bigint PRIMARY KEY REFERENCES news.ai_result ON DELETE CASCADE,
    article_id          bigint NOT NULL REFERENCES news.article ON DELETE CASCADE,
    summary3            text[] NOT NULL CHECK (cardinality(summary3) = 3),
    summary_full        text NOT NULL,
    unsupported_numbers text[] NOT NULL,
    publishable         boolean GENERATED ALWAYS AS (cardinality(unsupported_numbers) = 0) STORED
);
COMMENT ON COLUMN news.summary.unsupported_numbers IS 'Numbers that do not occur in the article; with any the summary must not be published.';
CREATE INDEX summary_by_article ON news.summary (article_id, result_id DESC);

CREATE TABLE news.term (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    term_key   text NOT NULL UNIQUE,
    term       text NOT NULL,
    definition text NOT NULL,
    created_at timestamptz NOT NULL
);
COMMENT ON TABLE news.term IS 'The dictionary. The first definition of a term stays.';

CREATE TABLE news.term_card (
    result_id      bigint NOT NULL REFERENCES news.ai_result ON DELETE CASCADE,
    position       smallint NOT NULL CHECK (position BETWEEN 1 AND 3),
    article_id     bigint NOT NULL REFERENCES news.article ON DELETE CASCADE,
    term_id        bigint NOT NULL REFERENCES news.term,
    term           text NOT NULL,
    highlight_text text NOT NULL,
    definition     text NOT NULL,
    PRIMARY KEY (result_id, position)
);
CREATE INDEX term_card_by_article ON news.term_card (article_id);
CREATE INDEX term_card_by_term ON news.term_card (term_id);

CREATE TABLE news.insight (
    result_id      bigint NOT NULL REFERENCES news.ai_result ON DELETE CASCADE,
    position       smallint NOT NULL CHECK (position BETWEEN 1 AND 3),
    article_id     bigint NOT NULL REFERENCES news.article ON DELETE CASCADE,
    title          text NOT NULL,
    detail         text NOT NULL,
    why_it_matters text NOT NULL,
    PRIMARY KEY (result_id, position)
);
CREATE INDEX insight_by_article ON news.insight (article_id);

CREATE TABLE news.quiz (
    result_id    bigint NOT NULL REFERENCES news.ai_result ON DELETE CASCADE,
    position     smallint NOT NULL CHECK (position BETWEEN 1 AND 3),
    article_id   bigint NOT NULL REFERENCES news.article ON DELETE CASCADE,
    kind         text NOT NULL CHECK (kind IN ('CONTENT', 'TERM')),
    question     text NOT NULL,
    options      text[] NOT NULL CHECK (cardinality(options) = 4),
    answer_index smallint NOT NULL CHECK (answer_index BETWEEN 0 AND 3),
    explanations text[] NOT NULL CHECK (cardinality(explanations) = 4),
    PRIMARY KEY (result_id, position)
);
CREATE INDEX quiz_by_article ON news.quiz (article_id, kind);

-- The job of each kind that counts for an article: older ones were redone.
CREATE VIEW news.newest_job AS
SELECT DISTINCT ON (article_id, job_type) * FROM news.ai_job
ORDER BY article_id, job_type, asked_at DESC, id DESC;

-- The result of each kind that readers see. Not the one stored last: an older run may finish late.
CREATE VIEW news.newest_result AS
SELECT DISTINCT ON (article_id, job_type) * FROM news.ai_result
ORDER BY article_id, job_type, asked_at DESC, job_id DESC;

-- The same for one article and kind: a view's DISTINCT ON would be worked out for all of them first.
CREATE FUNCTION news.job_that_counts(article bigint, kind text) RETURNS SETOF news.ai_job
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT * FROM news.ai_job WHERE article_id = article AND job_type = kind
    ORDER BY asked_at DESC, id DESC LIMIT 1
$$;

-- The result that counts, what it was made from, and what it would be made from now.
CREATE FUNCTION news.result_and_input(article bigint, kind text)
RETURNS TABLE (result_id bigint, article_id bigint, job_type text, prompt_version text, model text,
               input_hash text, input_hash_now text)
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT result.id, result.article_id, result.job_type, result.prompt_version, result.model, result.input_hash,
           coalesce(
               (SELECT parent.output_hash FROM news.ai_result AS parent
                WHERE parent.article_id = article
                  AND parent.job_type = CASE kind WHEN 'SUMMARY' THEN NULL WHEN 'QUIZ_TERM' THEN 'TERM_CARDS'
                                        ELSE 'SUMMARY' END
                ORDER BY parent.asked_at DESC, parent.job_id DESC LIMIT 1),
               (SELECT source.input_hash FROM news.article AS source WHERE source.id = article))
    FROM news.ai_result AS result WHERE result.article_id = article AND result.job_type = kind
    ORDER BY result.asked_at DESC, result.job_id DESC LIMIT 1
$$;

CREATE VIEW news.ai_jobs_queue_size AS
SELECT job_type AS type, status, count(*) AS jobs FROM news.ai_job GROUP BY job_type, status;

-- What each article has and what it waits for. A near-duplicate shows the results of the first one.
CREATE VIEW news.article_ai AS
SELECT article.id AS article_id, article.day, article.section, article.duplicate_of,
       CASE WHEN jobs.total = 0 THEN 'NONE'
            WHEN jobs.suspended > 0 THEN 'SUSPENDED'
            WHEN jobs.waiting > 0 THEN 'WAITING'
            WHEN jobs.failed > 0 THEN 'FAILED'
            ELSE 'DONE' END AS state,
       jobs.waits_for, jobs.next_run_at,
       results.summary_id, results.term_cards_id, results.insight_id, results.content_quiz_id,
       results.term_quiz_id, summary.summary3, summary.summary_full, summary.publishable
FROM news.article AS article
CROSS JOIN LATERAL (
    -- With its own job an article stands for itself; without one it shares its original's.
    SELECT CASE WHEN article.duplicate_of IS NOT NULL
                 AND NOT EXISTS (SELECT FROM news.ai_job WHERE article_id = article.id)
                THEN article.duplicate_of ELSE article.id END AS article_id
) AS source
CROSS JOIN LATERAL (
    SELECT count(*) AS total,
           count(*) FILTER (WHERE status = 'SUSPENDED') AS suspended,
           count(*) FILTER (WHERE status IN ('PENDING', 'RUNNING', 'SUBMITTED', 'RETRY_WAIT')) AS waiting,
           count(*) FILTER (WHERE status = 'FAILED') AS failed,
           array_agg(job_type ORDER BY job_type) FILTER (WHERE status <> 'SUCCESS') AS waits_for,
           min(next_run_at) AS next_run_at
    FROM (SELECT DISTINCT ON (job_type) job_type, status, next_run_at FROM news.ai_job
          WHERE article_id = source.article_id ORDER BY job_type, asked_at DESC, id DESC) AS newest
) AS jobs
CROSS JOIN LATERAL (
    SELECT max(id) FILTER (WHERE job_type = 'SUMMARY') AS summary_id,
           max(id) FILTER (WHERE job_type = 'TERM_CARDS') AS term_cards_id,
           max(id) FILTER (WHERE job_type = 'INSIGHT') AS insight_id,
           max(id) FILTER (WHERE job_type = 'QUIZ_CONTENT') AS content_quiz_id,
           max(id) FILTER (WHERE job_type = 'QUIZ_TERM') AS term_quiz_id
    FROM (SELECT DISTINCT ON (job_type) job_type, id FROM news.ai_result
          WHERE article_id = source.article_id ORDER BY job_type, asked_at DESC, job_id DESC) AS newest
) AS results
LEFT JOIN news.summary AS summary ON summary.result_id = results.summary_id;
