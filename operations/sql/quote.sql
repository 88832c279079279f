-- What a backfill finds to do, and what such work took before. Reads only. Averages are of the last 30 days.

-- name: clock
SELECT granary.now(), granary.today(), (granary.now() AT TIME ZONE 'UTC')::date,
       ((granary.now() - interval '15 minutes') AT TIME ZONE 'Asia/Seoul')::date;

-- name: spent_today
SELECT coalesce(sum(spent_usd + reserved_usd), 0) FROM granary.spending_day WHERE day = granary.today();

-- name: seconds_a_call
-- By model and schema, of all that was ever counted.
SELECT total.labels->>'model', total.labels->>'schema', sum(total.value) / sum(calls.value)
FROM granary.counter AS total
JOIN granary.counter AS calls ON calls.name = 'openai_api_latency_seconds_count' AND calls.labels = total.labels
WHERE total.name = 'openai_api_latency_seconds_sum' AND total.labels->>'status' = 'ok'
GROUP BY 1, 2 HAVING sum(calls.value) > 0;

-- name: asked_again
-- The share of answers that broke a rule and were asked for once more, by kind of result.
SELECT labels->>'type',
       coalesce(sum(value) FILTER (WHERE labels->>'event' = 'asked_again'), 0)
           / sum(value) FILTER (WHERE labels->>'result' IN ('success', 'failed'))
FROM granary.counter WHERE name IN ('ai_jobs_events_total', 'ai_jobs_processed_total')
GROUP BY 1 HAVING sum(value) FILTER (WHERE labels->>'result' IN ('success', 'failed')) > 0;

-- name: calls_of_pipeline
-- Calls and tokens by model.
SELECT model, sum(calls)::bigint, sum(input_tokens)::bigint, sum(cached_tokens)::bigint,
       sum(output_tokens)::bigint
FROM granary.spending WHERE pipeline = %(pipeline)s AND day > granary.today() - 30 GROUP BY model;

-- name: news_results
SELECT job_type, model, count(*), avg(input_tokens)::float, avg(cached_tokens)::float, avg(output_tokens)::float
FROM news.ai_result WHERE created_at > granary.now() - interval '30 days' GROUP BY job_type, model;

-- name: news_articles_by_jobs
-- Articles by the kinds of results that wait to be asked for, are in a batch, could be redone, are outdated.
SELECT waiting, in_batch, redoable, outdated, count(*)
FROM (
    SELECT coalesce(array_agg(kind.job_type) FILTER (WHERE jobs.waits), '{}') AS waiting,
           coalesce(array_agg(kind.job_type) FILTER (WHERE jobs.are_in_batch), '{}') AS in_batch,
           coalesce(array_agg(kind.job_type) FILTER (WHERE result.is_redoable), '{}') AS redoable,
           coalesce(array_agg(kind.job_type) FILTER (WHERE result.is_outdated), '{}') AS outdated
    FROM news.article AS article
    CROSS JOIN unnest(%(kinds)s::text[], %(prompt_versions)s::text[]) AS kind (job_type, prompt_version)
    CROSS JOIN LATERAL (
        SELECT bool_or(status IN ('PENDING', 'RETRY_WAIT', 'RUNNING'))
                   AND NOT (kind.job_type = 'SUMMARY' AND article.body_emptied_at IS NOT NULL) AS waits,
               bool_or(status = 'SUBMITTED') AS are_in_batch
        FROM news.ai_job WHERE article_id = article.id AND job_type = kind.job_type
    ) AS jobs
    LEFT JOIN LATERAL (
        SELECT true AS is_redoable,
               (input.prompt_version, input.model, input.input_hash)
                   IS DISTINCT FROM (kind.prompt_version, %(model)s::text, input.input_hash_now) AS is_outdated
        FROM news.job_that_counts(article.id, kind.job_type) AS job
        CROSS JOIN LATERAL news.result_and_input(article.id, kind.job_type) AS input
        WHERE job.status = 'SUCCESS' AND (kind.job_type <> 'SUMMARY' OR article.body_emptied_at IS NULL)
    ) AS result ON true
    WHERE article.day BETWEEN %(first)s AND %(last)s AND article.section = ANY(%(sections)s)
    GROUP BY article.id
) AS standing
GROUP BY 1, 2, 3, 4;

-- name: news_jobs_at_rest
-- Jobs that nobody takes by himself. A replaced one is neither resumed nor tried again.
SELECT status, count(*) FROM news.ai_job AS job
WHERE day BETWEEN %(first)s AND %(last)s AND section = ANY(%(sections)s) AND status IN ('SUSPENDED', 'FAILED')
  AND NOT EXISTS (SELECT FROM news.ai_job AS newer
                  WHERE newer.article_id = job.article_id AND newer.job_type = job.job_type
                    AND (newer.asked_at, newer.id) > (job.asked_at, job.id))
GROUP BY status;

-- name: news_section_days
-- What is known of each day's lists.
SELECT wanted.day, wanted.section,
       EXISTS (SELECT FROM news.read_list AS list WHERE list.day = wanted.day AND list.section = wanted.section),
       count(page.oid),
       count(page.oid) FILTER (
           WHERE page.status = 'LISTED' OR page.status = 'PARSE_FAILED' AND page.passes <= 3
              OR page.status = 'FETCH_FAILED' AND page.passes < 12)
FROM (SELECT day::date, section
      FROM generate_series(%(first)s::date, %(last)s::date, interval '1 day') AS day
      CROSS JOIN unnest(%(sections)s::text[]) AS section) AS wanted (day, section)
LEFT JOIN news.listed_page AS page ON page.day = wanted.day AND page.section = wanted.section
GROUP BY wanted.day, wanted.section;

-- name: news_crawled_days
-- What the lists of a day brought: links, of them pages that were fetched for this section, articles, summaries.
SELECT page.section, count(DISTINCT page.day), count(*),
       count(*) FILTER (WHERE article.id IS NULL OR article.section = page.section),
       count(*) FILTER (WHERE article.section = page.section),
       count(*) FILTER (WHERE article.section = page.section AND EXISTS (
           SELECT FROM news.ai_job WHERE article_id = article.id AND job_type = 'SUMMARY'))
FROM news.listed_page AS page LEFT JOIN news.article AS article USING (oid, aid)
WHERE page.listed_at > granary.now() - interval '30 days' AND page.day < granary.today()
GROUP BY page.section;

-- name: raw_files
SELECT count(DISTINCT (day, source)), count(*), count(*) FILTER (WHERE status <> 'PROCESSED'),
       count(*) FILTER (WHERE status = 'FAILED')
FROM raw.file
WHERE day BETWEEN %(first)s AND %(last)s AND (%(sources)s::text[] IS NULL OR source = ANY(%(sources)s));

-- name: raw_front_pages
-- Domains of the files that a run of their partitions would fetch the front page of.
SELECT count(DISTINCT sighting.domain_id)
FROM raw.file JOIN raw.domain_sighting AS sighting USING (key)
LEFT JOIN raw.front_page AS page USING (domain_id)
WHERE file.day BETWEEN %(first)s AND %(last)s AND (%(sources)s::text[] IS NULL OR file.source = ANY(%(sources)s))
  AND (page.domain_id IS NULL OR page.status = 'WAITING'
       OR page.status = 'FAILED' AND page.next_try_at <= granary.now());

-- name: raw_domains_a_file
-- Files that were processed, and domains that were new with them.
SELECT (SELECT count(*) FROM raw.file
        WHERE status = 'PROCESSED' AND processed_at > granary.now() - interval '30 days'),
       (SELECT count(*) FROM raw.domain WHERE first_seen_at > granary.now() - interval '30 days');

-- name: contexts
-- Requests that wait, by the stage that they would begin with, and the bytes of their texts.
SELECT count(*) FILTER (WHERE stage = 'both'), count(*) FILTER (WHERE stage IN ('both', 'keywords')),
       coalesce(sum(bytes) FILTER (WHERE stage = 'both'), 0)::bigint
FROM (
    SELECT octet_length(request.text) AS bytes,
           CASE WHEN (state.embedding_status, state.keyword_status) = ('PENDING', 'PENDING') THEN 'both'
                WHEN state.embedding_status = 'COMPLETED' AND state.keyword_status IN ('PENDING', 'PROCESSING')
                THEN 'keywords'
                WHEN 'PROCESSING' IN (state.embedding_status, state.keyword_status) THEN 'both' END AS stage
    FROM granary.context_request AS request JOIN ai.context_ai_state AS state USING (context_id)
    WHERE (request.handled_at IS NULL OR request.handled_at < request.requested_at) AND request.text IS NOT NULL
      AND (request.requested_at AT TIME ZONE 'UTC')::date BETWEEN %(first)s AND %(last)s
) AS waiting;

-- name: contexts_of_older_presets
SELECT count(*) FROM granary.context_request AS request
JOIN ai.context_keyword_analysis AS analysis USING (context_id)
WHERE (request.requested_at AT TIME ZONE 'UTC')::date BETWEEN %(first)s AND %(last)s
  AND analysis.preset_version < (SELECT max(version) FROM ai.keyword_preset);

-- name: products_to_embed
-- As one run asks: two hundred at a time.
SELECT coalesce(sum(products), 0)::bigint, coalesce(sum(bytes), 0)::bigint,
       coalesce(sum(ceil(bytes / %(bytes_a_call)s::numeric)), 0)::bigint
FROM (
    SELECT count(*) AS products, sum(bytes) AS bytes
    FROM (
        SELECT least(octet_length(product.name || product.category || product.text) + 2, 18000) AS bytes,
               (row_number() OVER (ORDER BY product.id) - 1) / %(at_once)s AS portion
        FROM rec.product AS product
        LEFT JOIN rec.product_embedding AS embedding
               ON embedding.product_id = product.id AND embedding.profile = %(profile)s
        LEFT JOIN rec.product_refusal AS refusal
               ON refusal.product_id = product.id AND refusal.profile = %(profile)s
        WHERE product.is_active AND trim(product.name || product.category || product.text) <> ''
          AND embedding.source_hash IS DISTINCT FROM %(version)s || product.source_hash
          AND refusal.source_hash IS DISTINCT FROM %(version)s || product.source_hash
    ) AS changed
    GROUP BY portion
) AS requests;

-- name: members
SELECT (SELECT count(*) FROM rec.visit_trigger WHERE trigger_at <= granary.now()),
       (SELECT count(*) FROM rec.queue_item
        WHERE status = 'PENDING' AND (queued_at AT TIME ZONE 'UTC')::date BETWEEN %(first)s AND %(last)s);
