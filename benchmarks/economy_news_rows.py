"""Articles, results and jobs put straight into the database, in the numbers that a measurement needs.

Texts are those of the stand-in site; the rest is what the pipeline itself would have stored, but for the
rows of results other than summaries, which nothing here reads.
"""

from collections.abc import Sequence
from datetime import date

import psycopg

from assets.economy_news.models import JobType, Partition
from local_stack.naver_site.articles import Kind
from local_stack.naver_site.days import articles_of
from orchestration.partitions import SECTIONS

MODEL = "gpt-4o-mini"

_ADD_ARTICLES = """
WITH text AS (
    SELECT number - 1 AS number, title, body
    FROM unnest(%(titles)s::text[], %(bodies)s::text[]) WITH ORDINALITY AS given (title, body, number)
), known AS (SELECT count(*) AS articles FROM news.article)
INSERT INTO news.article
    (oid, aid, day, section, url, title, body, body_characters, input_hash, similarity_signature, run_id,
     stored_at)
SELECT '001', aid, %(day)s, (%(sections)s::text[])[1 + made.number %% cardinality(%(sections)s::text[])],
       'https://n.news.naver.com/mnews/article/001/' || aid, text.title, text.body, length(text.body),
       md5(aid), decode(repeat(md5(aid), 16), 'hex'), 'seed', now()
FROM known CROSS JOIN generate_series(0, %(count)s - 1) AS made (number)
CROSS JOIN LATERAL (SELECT lpad((known.articles + made.number)::text, 10, '0') AS aid) AS named
JOIN text ON text.number = made.number %% %(texts)s
"""

_ADD_SETTLED_RESULTS = """
WITH done AS (
    INSERT INTO news.ai_job
        (article_id, job_type, prompt_version, model, input_hash, day, section, status, attempt, claimed_by,
         created_at, asked_at, settled_at)
    SELECT article.id, kind, 'seed', %(model)s, md5(article.id || kind), article.day, article.section,
           'SUCCESS', 1, 'seed-' || article.id / 100, now(), now(), now()
    FROM news.article AS article, unnest(%(kinds)s::text[]) AS kind
    WHERE article.day = %(day)s
    RETURNING *
), results AS (
    INSERT INTO news.ai_result
        (job_id, redo_number, article_id, job_type, model, prompt_version, input_hash, output_hash,
         input_tokens, cached_tokens, output_tokens, cost_usd, original_url, run_id, asked_at, created_at)
    SELECT id, 0, article_id, job_type, model, prompt_version, input_hash, md5(input_hash), 1500, 0, 300,
           0.0004, 'https://n.news.naver.com/mnews/article/001/' || article_id, claimed_by, asked_at, now()
    FROM done RETURNING id, article_id, job_type
)
INSERT INTO news.summary (result_id, article_id, summary3, summary_full, unsupported_numbers)
SELECT results.id, article.id, array[left(article.body, 40), left(article.body, 40), left(article.body, 40)],
       left(article.body, 500), '{}'
FROM results JOIN news.article AS article ON article.id = results.article_id
WHERE results.job_type = 'SUMMARY'
"""

# Another hash is another question, so that one article can have as many jobs as are needed.
_ADD_DUE_JOBS = """
WITH articles AS (
    SELECT id, section, row_number() OVER (ORDER BY id) - 1 AS number, count(*) OVER () AS total
    FROM news.article WHERE day = %(day)s
)
INSERT INTO news.ai_job
    (article_id, job_type, prompt_version, model, input_hash, day, section, created_at, asked_at)
SELECT articles.id, %(job_type)s, 'seed', %(model)s, md5(random()::text || made.number), %(day)s,
       articles.section, now(), now()
FROM generate_series(0, %(count)s - 1) AS made (number)
JOIN articles ON articles.number = made.number %% articles.total
"""


def partitions_of(day: date) -> list[Partition]:
    """All eight of the day."""
    return [Partition(day, section) for section in SECTIONS]


def add_articles(
    connection: psycopg.Connection, day: date, count: int, sections: Sequence[str] = SECTIONS
) -> None:
    """Stores articles of about 1,600 characters, in turn over the sections."""
    texts = [article for article in articles_of(day) if article.kind is Kind.CURRENT]
    parameters = {
        "titles": [article.title for article in texts],
        "bodies": [article.cleaned_body for article in texts],
        "texts": len(texts),
        "sections": list(sections),
        "day": day,
        "count": count,
    }
    connection.execute(_ADD_ARTICLES, parameters)


def add_settled_results(
    connection: psycopg.Connection, day: date, kinds: Sequence[JobType] = tuple(JobType)
) -> None:
    """Gives every article of the day a job in SUCCESS of each kind, with its result."""
    connection.execute(_ADD_SETTLED_RESULTS, {"day": day, "kinds": list(kinds), "model": MODEL})


def add_due_jobs(connection: psycopg.Connection, day: date, job_type: JobType, count: int) -> None:
    """Adds jobs that wait, in turn over the day's articles, and has the planner know of them."""
    connection.execute(_ADD_DUE_JOBS, {"day": day, "job_type": job_type, "count": count, "model": MODEL})
    connection.execute("ANALYZE news.article, news.ai_job, news.ai_result, news.summary")
