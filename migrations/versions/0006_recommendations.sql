-- recommendations: visits, the triggers they leave, the queue, and what was recommended.

CREATE SCHEMA rec;
COMMENT ON SCHEMA rec IS 'The pipeline recommendations.';

CREATE TABLE rec.product (
    id         bigint PRIMARY KEY,
    name       text NOT NULL,
    category   text NOT NULL,
    text       text NOT NULL,
    is_active  boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now(),
    source_hash text NOT NULL GENERATED ALWAYS AS (md5(md5(name) || md5(category) || md5(text))) STORED
);
COMMENT ON TABLE rec.product IS 'Written by the application, but for the hash.';
COMMENT ON COLUMN rec.product.source_hash IS
    'What has changed is found by it, and no text read: of 100,000 products each minute.';

CREATE TABLE rec.product_embedding (
    product_id bigint PRIMARY KEY REFERENCES rec.product ON DELETE CASCADE,
    embedding  vector(1536) NOT NULL,
    profile    varchar(100) NOT NULL,
    text_hash  text NOT NULL,
    updated_at timestamptz NOT NULL,
    source_hash text
);
COMMENT ON COLUMN rec.product_embedding.source_hash IS
    'The version of what is embedded, and the product''s hash then; NULL: its text is compared.';

CREATE TABLE rec.product_refusal (
    product_id bigint PRIMARY KEY REFERENCES rec.product ON DELETE CASCADE,
    profile    varchar(100) NOT NULL,
    text_hash  text NOT NULL,
    code       text NOT NULL,
    refused_at timestamptz NOT NULL,
    source_hash text
);
COMMENT ON TABLE rec.product_refusal IS
    'A text that the model does not take is not asked about again, until it is another.';

CREATE TABLE rec.member_event (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    member_id   bigint NOT NULL CHECK (member_id > 0),
    product_id  bigint NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('view', 'like', 'purchase')),
    weight      double precision NOT NULL DEFAULT 1 CHECK (weight >= 0 AND weight < 'Infinity'),
    occurred_at timestamptz NOT NULL
);
COMMENT ON TABLE rec.member_event IS 'Written by the application.';
CREATE INDEX member_event_by_member ON rec.member_event (member_id, occurred_at);
CREATE INDEX member_event_by_time ON rec.member_event (occurred_at);

CREATE TABLE rec.member_opt_out (
    member_id    bigint PRIMARY KEY CHECK (member_id > 0),
    opted_out_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE rec.member_opt_out IS 'Members who refused profiling: they get what everybody gets.';

CREATE TABLE rec.member_visit (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    member_id   bigint NOT NULL CHECK (member_id > 0),
    occurred_at timestamptz NOT NULL,
    consumed_at timestamptz
);
COMMENT ON TABLE rec.member_visit IS 'Visits written by an application that does not post them.';
CREATE INDEX member_visit_waiting ON rec.member_visit (id) WHERE consumed_at IS NULL;
CREATE INDEX member_visit_by_member ON rec.member_visit (member_id);

CREATE TABLE rec.visit_trigger (
    member_id       bigint PRIMARY KEY CHECK (member_id > 0),
    last_visited_at timestamptz NOT NULL,
    trigger_at      timestamptz NOT NULL,
    lease_until     timestamptz,
    lease_token     uuid,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    CONSTRAINT a_lease_has_a_token CHECK ((lease_until IS NULL) = (lease_token IS NULL)),
    CONSTRAINT due_after_the_visit CHECK (trigger_at > last_visited_at)
);
COMMENT ON TABLE rec.visit_trigger IS
    'When a member is due next. The lease is a column of its own, so that a crash leaves the due time, which the type depends on.';
CREATE INDEX visit_trigger_by_due_time ON rec.visit_trigger (trigger_at);

CREATE TABLE rec.queue_item (
    id                        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    member_id                 bigint NOT NULL CHECK (member_id > 0),
    last_visited_at           timestamptz NOT NULL,
    due_offset                interval NOT NULL,
    candidate_generation_type text NOT NULL CHECK (candidate_generation_type IN ('G0', 'G1', 'G2')),
    status                    text NOT NULL DEFAULT 'PENDING'
                              CHECK (status IN ('PENDING', 'RUNNING', 'SUCCEEDED', 'FAILED')),
    queued_at                 timestamptz NOT NULL,
    picked_at                 timestamptz,
    finished_at               timestamptz,
    claimed_by                text,
    lease_until               timestamptz,
    returns                   smallint NOT NULL DEFAULT 0 CHECK (returns BETWEEN 0 AND 1),
    error                     text,
    CONSTRAINT queue_item_once_per_due_time UNIQUE (member_id, last_visited_at, due_offset),
    CONSTRAINT running_is_claimed CHECK ((status = 'RUNNING') = (claimed_by IS NOT NULL AND lease_until IS NOT NULL)),
    CONSTRAINT ended_has_a_time CHECK ((status IN ('SUCCEEDED', 'FAILED')) = (finished_at IS NOT NULL))
);
CREATE UNIQUE INDEX queue_item_one_open_per_member ON rec.queue_item (member_id)
    WHERE status IN ('PENDING', 'RUNNING');
CREATE INDEX queue_item_waiting ON rec.queue_item (queued_at, id) WHERE status = 'PENDING';
CREATE INDEX queue_item_running ON rec.queue_item (lease_until) WHERE status = 'RUNNING';
CREATE INDEX queue_item_by_time ON rec.queue_item (queued_at);

CREATE TABLE rec.recommended_product (
    member_id                 bigint NOT NULL CHECK (member_id > 0),
    product_id                bigint NOT NULL,
    rank                      integer NOT NULL CHECK (rank > 0),
    score                     double precision NOT NULL,
    candidate_generation_type text NOT NULL CHECK (candidate_generation_type IN ('G0', 'G1', 'G2')),
    queue_item_id             bigint NOT NULL,
    created_at                timestamptz NOT NULL,
    PRIMARY KEY (member_id, product_id),
    CONSTRAINT recommended_one_per_rank UNIQUE (member_id, rank)
);
COMMENT ON TABLE rec.recommended_product IS 'The set of each member, replaced as a whole.';
