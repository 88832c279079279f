-- economy_news: listed pages, articles, AI jobs, summaries.

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
    CONSTRAINT article_is_stored_once UNIQUE (oid, aid),
    CONSTRAINT article_is_no_duplicate_of_itself CHECK (duplicate_of <> id)
);
COMMENT ON COLUMN news.article.day IS 'The date of the list page that the article was found on, Asia/Seoul.';
COMMENT ON COLUMN news.article.section IS 'The section that stored the article first.';
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
              CHECK (status IN ('LISTED', 'STORED', 'GONE', 'MOVED', 'PARSE_FAILED', 'FETCH_FAILED')),
    passes    integer NOT NULL DEFAULT 0,
    reason    text,
    listed_at timestamptz NOT NULL,
    looked_at timestamptz,
    PRIMARY KEY (oid, aid, section)
);
CREATE INDEX listed_page_by_partition ON news.listed_page (day, section);
CREATE INDEX listed_page_waiting ON news.listed_page (day, section)
    WHERE status IN ('LISTED', 'PARSE_FAILED', 'FETCH_FAILED');

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
    error_code      text,
    error_message   text,
    created_at      timestamptz NOT NULL,
    settled_at      timestamptz,
    CONSTRAINT ai_job_is_asked_once UNIQUE (article_id, job_type, prompt_version, model, input_hash),
    CONSTRAINT ai_job_running_has_a_lease
        CHECK ((status = 'RUNNING') = (lease_until IS NOT NULL) AND (status <> 'RUNNING' OR claimed_by IS NOT NULL)),
    CONSTRAINT ai_job_retry_has_a_due_time CHECK ((status = 'RETRY_WAIT') = (next_run_at IS NOT NULL)),
    CONSTRAINT ai_job_suspended_has_a_reason CHECK ((status = 'SUSPENDED') = (suspend_reason IS NOT NULL)),
    CONSTRAINT ai_job_submitted_has_a_batch CHECK (status <> 'SUBMITTED' OR batch_id IS NOT NULL)
);
COMMENT ON COLUMN news.ai_job.attempt IS 'Claims so far; with claimed_by the token that a finish must show.';
COMMENT ON COLUMN news.ai_job.claimed_by IS 'The run that claimed it last; kept after the finish.';
CREATE INDEX ai_job_waiting ON news.ai_job (job_type, day, section, id)
    WHERE status IN ('PENDING', 'RETRY_WAIT', 'RUNNING');
CREATE INDEX ai_job_by_partition ON news.ai_job (day, section);
CREATE INDEX ai_job_by_run ON news.ai_job (claimed_by) WHERE claimed_by IS NOT NULL;

CREATE TABLE news.summary (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    article_id     bigint NOT NULL REFERENCES news.article ON DELETE CASCADE,
    job_id         bigint NOT NULL REFERENCES news.ai_job ON DELETE CASCADE,
    summary3       text[] NOT NULL CHECK (cardinality(summary3) = 3),
    summary_full   text NOT NULL,
    publishable    boolean NOT NULL DEFAULT true,
    ai_generated   boolean NOT NULL DEFAULT true CHECK (ai_generated),
    original_url   text NOT NULL,
    model          text NOT NULL,
    prompt_version text NOT NULL,
    input_tokens   integer NOT NULL,
    cached_tokens  integer NOT NULL,
    output_tokens  integer NOT NULL,
    cost_usd       numeric(14, 8) NOT NULL,
    run_id         text NOT NULL,
    created_at     timestamptz NOT NULL,
    CONSTRAINT summary_is_stored_once UNIQUE (job_id)
);
CREATE INDEX summary_by_article ON news.summary (article_id, id DESC);

-- What each article has and what it waits for. A near-duplicate shows the results of the first one.
CREATE VIEW news.article_ai AS
SELECT article.id AS article_id, article.day, article.section, article.duplicate_of,
       CASE WHEN jobs.total = 0 THEN 'NONE'
            WHEN jobs.suspended > 0 THEN 'SUSPENDED'
            WHEN jobs.waiting > 0 THEN 'WAITING'
            WHEN jobs.failed > 0 THEN 'FAILED'
            ELSE 'DONE' END AS state,
       jobs.next_run_at,
       summary.id AS summary_id, summary.summary3, summary.summary_full, summary.publishable
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
           min(next_run_at) AS next_run_at
    FROM news.ai_job WHERE article_id = source.article_id
) AS jobs
LEFT JOIN LATERAL (
    SELECT id, summary3, summary_full, publishable FROM news.summary
    WHERE article_id = source.article_id ORDER BY id DESC LIMIT 1
) AS summary ON true;
