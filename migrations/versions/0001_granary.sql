-- What all pipelines share: the clock, the gate, spending, counters, alerts, the pace of hosts.

CREATE SCHEMA granary;
COMMENT ON SCHEMA granary IS 'What all pipelines share.';

-- The only clock of leases and due times. A test or a simulation moves it with SET granary.now = '…'.
CREATE FUNCTION granary.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(nullif(current_setting('granary.now', true), '')::timestamptz, now())
$$;

CREATE FUNCTION granary.today() RETURNS date LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT (granary.now() AT TIME ZONE 'Asia/Seoul')::date
$$;

CREATE TABLE granary.api_gate (
    provider_key  text NOT NULL,
    model         text NOT NULL,
    reason        text NOT NULL CHECK (reason IN ('QUOTA', 'AUTH', 'MODEL', 'BUDGET')),
    message       text NOT NULL,
    since         timestamptz NOT NULL,
    next_probe_at timestamptz NOT NULL,
    PRIMARY KEY (provider_key, model)
);
COMMENT ON TABLE granary.api_gate IS
    'One row for each provider key and model that is shut. No row: open. provider_key is a fingerprint, no secret.';

CREATE TABLE granary.spending_day (
    day           date PRIMARY KEY,
    reserved_usd  numeric(14, 8) NOT NULL DEFAULT 0 CHECK (reserved_usd >= 0),
    spent_usd     numeric(14, 8) NOT NULL DEFAULT 0 CHECK (spent_usd >= 0)
);
COMMENT ON TABLE granary.spending_day IS
    'The row that the cap is checked against, day in Asia/Seoul. A reservation whose run died stays reserved: the call may have been charged.';

CREATE TABLE granary.spending (
    day           date NOT NULL REFERENCES granary.spending_day,
    pipeline      text NOT NULL,
    model         text NOT NULL,
    calls         bigint NOT NULL DEFAULT 0,
    input_tokens  bigint NOT NULL DEFAULT 0,
    cached_tokens bigint NOT NULL DEFAULT 0,
    output_tokens bigint NOT NULL DEFAULT 0,
    cost_usd      numeric(14, 8) NOT NULL DEFAULT 0,
    PRIMARY KEY (day, pipeline, model)
);

CREATE TABLE granary.counter (
    name   text NOT NULL,
    labels jsonb NOT NULL DEFAULT '{}',
    value  double precision NOT NULL DEFAULT 0,
    PRIMARY KEY (name, labels)
);
COMMENT ON TABLE granary.counter IS 'Cumulative, in Prometheus'' sense; added to in the transaction of what is counted.';

CREATE TABLE granary.alert (
    cause      text NOT NULL,
    day        date NOT NULL,
    message    text NOT NULL,
    raised_at  timestamptz NOT NULL,
    cleared_at timestamptz,
    PRIMARY KEY (cause, day)
);
COMMENT ON TABLE granary.alert IS 'One message per cause and day (Asia/Seoul), one when it clears.';

CREATE TABLE granary.host_pace (
    host            text PRIMARY KEY,
    next_request_at timestamptz NOT NULL,
    paused_until    timestamptz,
    pause_reason    text
);
COMMENT ON TABLE granary.host_pace IS 'When each host may be asked again, over all runs and machines.';
