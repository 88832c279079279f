-- Front pages of domains. Every time is granary.now(), the database's clock.

-- name: claim_of_partition
-- Domains of a partition whose front page was never looked at, or failed and is due again.
WITH wanted AS (
    SELECT DISTINCT sighting.domain_id FROM raw.file JOIN raw.domain_sighting AS sighting USING (key)
    WHERE file.day = %(day)s AND file.source = %(source)s
), due AS (
    SELECT domain_id FROM wanted LEFT JOIN raw.front_page AS page USING (domain_id)
    WHERE page.domain_id IS NULL
       OR (page.status = 'WAITING' OR page.status = 'FAILED' AND page.next_try_at <= granary.now())
          AND (page.lease_until IS NULL OR page.lease_until <= granary.now())
    ORDER BY domain_id LIMIT %(limit)s
), claimed AS (
    INSERT INTO raw.front_page AS page (domain_id, claimed_by, lease_until)
    SELECT domain_id, %(run_id)s, granary.now() + make_interval(secs => %(lease)s) FROM due
    ON CONFLICT (domain_id) DO UPDATE
    SET claimed_by = excluded.claimed_by, lease_until = excluded.lease_until, attempt = page.attempt + 1
    WHERE (page.status = 'WAITING' OR page.status = 'FAILED' AND page.next_try_at <= granary.now())
      AND (page.lease_until IS NULL OR page.lease_until <= granary.now())
    RETURNING domain_id, attempt
)
SELECT domain_id, attempt, domain FROM claimed JOIN raw.domain ON domain.id = domain_id ORDER BY domain_id;

-- name: claim_oldest
-- Front pages older than the days given, oldest first; failed ones that are due; domains never looked at.
WITH due AS (
    (SELECT domain_id, fetched_at FROM raw.front_page
     WHERE status = 'FETCHED' AND fetched_at <= granary.now() - make_interval(days => %(days)s)
       AND (lease_until IS NULL OR lease_until <= granary.now())
     ORDER BY fetched_at LIMIT %(limit)s)
    UNION ALL
    (SELECT domain_id, fetched_at FROM raw.front_page
     WHERE (status = 'WAITING' OR status = 'FAILED' AND next_try_at <= granary.now())
       AND (lease_until IS NULL OR lease_until <= granary.now())
     ORDER BY next_try_at LIMIT %(limit)s)
    UNION ALL
    (SELECT id, NULL FROM raw.domain
     WHERE NOT EXISTS (SELECT FROM raw.front_page WHERE domain_id = domain.id)
     LIMIT %(limit)s)
), chosen AS (
    SELECT domain_id FROM due ORDER BY fetched_at NULLS LAST LIMIT %(limit)s
), claimed AS (
    INSERT INTO raw.front_page AS page (domain_id, claimed_by, lease_until)
    SELECT domain_id, %(run_id)s, granary.now() + make_interval(secs => %(lease)s) FROM chosen
    ORDER BY domain_id
    ON CONFLICT (domain_id) DO UPDATE
    SET claimed_by = excluded.claimed_by, lease_until = excluded.lease_until, attempt = page.attempt + 1
    WHERE (page.lease_until IS NULL OR page.lease_until <= granary.now())
      AND CASE page.status WHEN 'FETCHED' THEN page.fetched_at <= granary.now() - make_interval(days => %(days)s)
                           WHEN 'FAILED' THEN page.next_try_at <= granary.now() ELSE true END
    RETURNING domain_id, attempt
)
SELECT domain_id, attempt, domain FROM claimed JOIN raw.domain ON domain.id = domain_id ORDER BY domain_id;

-- name: store_page
UPDATE raw.front_page AS page
SET status = 'FETCHED', failures = 0, reason = NULL, next_try_at = NULL, http_status = found.http_status,
    url = found.url, title = found.title, description = found.description, language = found.language,
    canonical_url = found.canonical_url, open_graph = found.open_graph, favicon_url = found.favicon_url,
    feed_urls = found.feed_urls, content_hash = found.content_hash, fetched_at = granary.now(),
    claimed_by = NULL, lease_until = NULL
FROM jsonb_to_recordset(%(pages)s)
    AS found (domain_id bigint, attempt integer, http_status integer, url text, title text, description text,
              language text, canonical_url text, open_graph jsonb, favicon_url text, feed_urls text[],
              content_hash text)
WHERE page.domain_id = found.domain_id AND page.attempt = found.attempt AND page.claimed_by = %(run_id)s;

-- name: fail_page
-- Tried again after an hour, then twice as long each time, at most a week; what never succeeds by itself
-- after a week at once.
UPDATE raw.front_page AS page
SET status = 'FAILED', failures = page.failures + 1, reason = failed.reason, http_status = failed.http_status,
    next_try_at = granary.now() + CASE WHEN failed.permanent THEN interval '7 days'
        ELSE least(interval '1 hour' * power(2, least(page.failures, 10)), interval '7 days') END,
    claimed_by = NULL, lease_until = NULL
FROM jsonb_to_recordset(%(pages)s)
    AS failed (domain_id bigint, attempt integer, reason text, http_status integer, permanent boolean)
WHERE page.domain_id = failed.domain_id AND page.attempt = failed.attempt AND page.claimed_by = %(run_id)s;

-- name: release
-- What the run had claimed and not settled is free at once.
UPDATE raw.front_page SET claimed_by = NULL, lease_until = NULL WHERE claimed_by = %(run_id)s;

-- name: counts_of_partition
SELECT count(*), count(*) FILTER (WHERE page.status = 'FETCHED'),
       count(*) FILTER (WHERE page.status = 'FAILED' AND page.fetched_at IS NULL),
       count(*) FILTER (WHERE page.status IS NULL OR page.status = 'WAITING')
FROM (SELECT DISTINCT sighting.domain_id FROM raw.file JOIN raw.domain_sighting AS sighting USING (key)
      WHERE file.day = %(day)s AND file.source = %(source)s) AS wanted
LEFT JOIN raw.front_page AS page USING (domain_id);
