-- What a rehearsal reads; it writes nothing of the pipeline.

-- name: articles_to_rehearse
-- The newest article of every day and section, newest day first, then the second newest of each: a spread that
-- is the same each time. The text is what a claim of the kind would read now; the rows are what readers see.
WITH pool AS (
    SELECT article.id, article.day, article.section FROM news.article AS article
    WHERE EXISTS (SELECT FROM news.ai_result WHERE article_id = article.id AND job_type = %(job_type)s)
      AND (%(job_type)s <> 'SUMMARY' OR article.body_emptied_at IS NULL)
    ORDER BY article.day DESC, article.id DESC LIMIT %(pool)s
), spread AS (
    SELECT id, day, section, row_number() OVER (PARTITION BY day, section ORDER BY id DESC) AS place FROM pool
), chosen AS (
    SELECT id, place FROM spread ORDER BY place, day DESC, section LIMIT %(articles)s
)
SELECT article.id AS article_id, article.day, article.section, article.title, article.url,
       asked.asked_text AS text,
       result.prompt_version, result.model, result.input_tokens, result.output_tokens, result.cost_usd,
       told.rows
FROM chosen
JOIN news.article AS article ON article.id = chosen.id
CROSS JOIN LATERAL news.text_asked_about(article.id, %(job_type)s) AS asked
CROSS JOIN LATERAL news.result_and_input(article.id, %(job_type)s) AS counting
JOIN news.ai_result AS result ON result.id = counting.result_id
CROSS JOIN LATERAL (
    SELECT json_agg(one.told ORDER BY one.position) AS rows
    FROM (
        SELECT 1 AS position, to_json(summary) AS told
        FROM news.summary AS summary WHERE summary.result_id = result.id
        UNION ALL
        SELECT card.position, to_json(card) FROM news.term_card AS card WHERE card.result_id = result.id
        UNION ALL
        SELECT insight.position, to_json(insight)
        FROM news.insight AS insight WHERE insight.result_id = result.id
        UNION ALL
        SELECT quiz.position, to_json(quiz) FROM news.quiz AS quiz WHERE quiz.result_id = result.id
    ) AS one
) AS told
ORDER BY chosen.place, article.day DESC, article.section;

-- name: count_outdated
-- How many results `redo: outdated` would make again if this prompt and model were in force.
SELECT count(*) FROM news.newest_result AS result
JOIN news.newest_job AS job ON job.article_id = result.article_id AND job.job_type = result.job_type
JOIN news.article AS article ON article.id = result.article_id
WHERE result.job_type = %(job_type)s AND job.job_type = %(job_type)s AND job.status = 'SUCCESS'
  AND (%(job_type)s <> 'SUMMARY' OR article.body_emptied_at IS NULL)
  AND (result.prompt_version, result.model) IS DISTINCT FROM (%(prompt_version)s::text, %(model)s::text);

-- name: usual_tokens
-- What a result took lately, second askings included; no row for a kind without results.
SELECT kind.job_type, round(avg(recent.input_tokens))::int, round(avg(recent.cached_tokens))::int,
       round(avg(recent.output_tokens))::int
FROM unnest(%(job_types)s::text[]) AS kind (job_type)
CROSS JOIN LATERAL (
    SELECT input_tokens, cached_tokens, output_tokens FROM news.ai_result
    WHERE job_type = kind.job_type ORDER BY id DESC LIMIT 500
) AS recent
GROUP BY kind.job_type;

-- name: taken_today
SELECT coalesce(sum(reserved_usd + spent_usd), 0) FROM granary.spending_day WHERE day = granary.today();
