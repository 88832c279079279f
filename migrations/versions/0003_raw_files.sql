-- raw_files: the ledger of files, domains and where they were seen, front pages, passes, reports.
-- A source is `country/category`; days and times are UTC.

CREATE SCHEMA raw;
COMMENT ON SCHEMA raw IS 'Raw files of the bucket and the domains in them. Days are UTC.';

CREATE TABLE raw.file (
    key          text PRIMARY KEY,
    source       text NOT NULL,
    day          date NOT NULL,
    etag         text NOT NULL,
    size         bigint NOT NULL,
    modified_at  timestamptz,
    status       text NOT NULL CHECK (status IN ('PENDING', 'PROCESSED', 'FAILED')),
    attempts     integer NOT NULL DEFAULT 0,
    reason       text,
    rows         bigint,
    rejected     bigint,
    sha256       text,
    seen_at      timestamptz NOT NULL,
    processed_at timestamptz,
    run_id       text,
    marked_etag  text,
    CHECK ((status = 'PROCESSED') = (processed_at IS NOT NULL)),
    CHECK ((status = 'FAILED') = (reason IS NOT NULL))
);
COMMENT ON TABLE raw.file IS
    'The ledger: a file is processed if it is PROCESSED with its current etag. A row without run_id was finished by somebody else, who left a marker.';
COMMENT ON COLUMN raw.file.marked_etag IS 'The version that our .success marker speaks of; another one than etag: it is still to be written.';
CREATE INDEX file_by_partition ON raw.file (day, source);

CREATE TABLE raw.domain (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    domain        text NOT NULL CONSTRAINT domain_once UNIQUE,
    first_seen_at timestamptz NOT NULL
);

CREATE TABLE raw.domain_sighting (
    key         text NOT NULL,
    source      text NOT NULL,
    day         date NOT NULL,
    domain_id   bigint NOT NULL REFERENCES raw.domain,
    title       text,
    description text,
    rank        integer,
    CONSTRAINT sighting_once PRIMARY KEY (key, domain_id, source, day)
);
COMMENT ON TABLE raw.domain_sighting IS 'Which file named a domain; the first time counts where it names one twice.';
CREATE INDEX sighting_by_domain ON raw.domain_sighting (domain_id);

CREATE TABLE raw.front_page (
    domain_id     bigint PRIMARY KEY REFERENCES raw.domain,
    status        text NOT NULL DEFAULT 'WAITING' CHECK (status IN ('WAITING', 'FETCHED', 'FAILED')),
    attempt       integer NOT NULL DEFAULT 1,
    claimed_by    text,
    lease_until   timestamptz,
    failures      integer NOT NULL DEFAULT 0,
    reason        text,
    next_try_at   timestamptz,
    http_status   integer,
    url           text,
    title         text,
    description   text,
    language      text,
    canonical_url text,
    open_graph    jsonb,
    favicon_url   text,
    feed_urls     text[],
    content_hash  text,
    fetched_at    timestamptz,
    CHECK ((claimed_by IS NULL) = (lease_until IS NULL)),
    CHECK (status <> 'FETCHED' OR fetched_at IS NOT NULL),
    CHECK (status <> 'FAILED' OR reason IS NOT NULL AND next_try_at IS NOT NULL)
);
COMMENT ON TABLE raw.front_page IS
    'A domain''s front page. FAILED keeps what an earlier fetch had found, with the reason and the next try.';
CREATE INDEX front_page_oldest ON raw.front_page (fetched_at) WHERE status = 'FETCHED';
CREATE INDEX front_page_due ON raw.front_page (next_try_at) WHERE status = 'FAILED';

CREATE TABLE raw.pass (
    id                        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind                      text NOT NULL CHECK (kind IN ('daily', 'supplementary')),
    scheduled_at              timestamptz NOT NULL,
    day                       date NOT NULL,
    started_at                timestamptz NOT NULL,
    scanned_at                timestamptz,
    failures                  integer NOT NULL DEFAULT 0,
    error                     text,
    due_at                    timestamptz,
    partitions_scanned        integer,
    partitions_with_new_files integer,
    new_files                 integer,
    CONSTRAINT pass_once UNIQUE (kind, scheduled_at)
);
COMMENT ON TABLE raw.pass IS
    'One look at the bucket by schedule. day is the one before it; due_at: when a look that failed is repeated.';
CREATE INDEX pass_by_day ON raw.pass (day);

CREATE TABLE raw.partition (
    day         date NOT NULL,
    source      text NOT NULL,
    status      text NOT NULL CHECK (status IN ('NEW', 'RUNNING', 'DONE', 'FAILED')),
    asked_at    timestamptz,
    run_id      text,
    started_at  timestamptz,
    finished_at timestamptz,
    failures    integer NOT NULL DEFAULT 0,
    error       text,
    due_at      timestamptz,
    PRIMARY KEY (day, source)
);
COMMENT ON TABLE raw.partition IS
    'How the last attempt at a partition stands. NEW: a run is asked for. due_at: when a failed one is tried again; none: its tries are spent, or a person stopped it.';
CREATE INDEX partition_due ON raw.partition (due_at) WHERE status IN ('NEW', 'RUNNING', 'FAILED');

CREATE TABLE raw.request (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    day          date NOT NULL,
    source       text NOT NULL,
    force        boolean NOT NULL,
    requested_at timestamptz NOT NULL,
    started_at   timestamptz,
    run_id       text
);
COMMENT ON TABLE raw.request IS 'What POST /api/v1/seeds/orchestrate asked for; a sensor starts it.';
CREATE INDEX request_waiting ON raw.request (id) WHERE started_at IS NULL;

CREATE TABLE raw.daily_report (
    day        date PRIMARY KEY,
    as_of      timestamptz NOT NULL,
    summary    jsonb NOT NULL
);
COMMENT ON COLUMN raw.daily_report.as_of IS 'What had happened until then is in the summary.';

CREATE TABLE raw.failure_log (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    type        text NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('SCAN', 'PARTITION', 'TIMEOUT', 'RESOURCE')),
    timestamp   timestamptz NOT NULL,
    error       text NOT NULL,
    stack       text,
    environment text NOT NULL,
    partition   text,
    run_id      text,
    CONSTRAINT failure_once_a_run UNIQUE (run_id, kind)
);
