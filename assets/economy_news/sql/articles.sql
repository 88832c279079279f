-- Listed pages and articles. Every time is granary.now(), the database's clock (a session may move it).

-- name: days
-- The running day in Asia/Seoul, and the first that the live crawl still reads: until 00:15 yesterday.
SELECT granary.today(), ((granary.now() - interval '15 minutes') AT TIME ZONE 'Asia/Seoul')::date;

-- name: known_pages
-- Which of these links the section's lists have shown before.
SELECT oid, aid FROM news.listed_page
WHERE section = %(section)s AND (oid, aid) IN (SELECT * FROM unnest(%(oids)s::text[], %(aids)s::text[]));

-- name: list_pages
-- Remembers what a list showed, all pages of one pass in one transaction: a pass that dies half-way
-- has then remembered all of it or nothing.
INSERT INTO news.listed_page (oid, aid, section, day, position, listed_at)
SELECT oid, aid, %(section)s, %(day)s, position, granary.now()
FROM unnest(%(oids)s::text[], %(aids)s::text[]) WITH ORDINALITY AS listed (oid, aid, position)
ON CONFLICT (oid, aid, section) DO NOTHING;

-- name: pages_to_fetch
-- What a pass may fetch: never looked at; unreadable, on three later passes; or a failed fetch, ever
-- more seldom (after n² minutes), twelve times. In the order of the list, and pages that were tried
-- before after those that were not: three failures in a row end a pass.
SELECT oid, aid, passes FROM news.listed_page
WHERE day = %(day)s AND section = %(section)s
  AND status IN ('LISTED', 'PARSE_FAILED', 'FETCH_FAILED')
  AND (status = 'LISTED'
       OR (status = 'PARSE_FAILED' AND passes <= 3)
       OR (status = 'FETCH_FAILED' AND passes < 12
           AND looked_at + make_interval(mins => passes * passes) <= granary.now()))
ORDER BY passes, listed_at, position;

-- name: settle_page
-- What became of a listed link. Unreadable pages and failed fetches are counted each for themselves. A link
-- that was stored stays stored.
UPDATE news.listed_page
SET status = %(status)s, reason = %(reason)s, looked_at = granary.now(),
    passes = CASE WHEN (status, %(status)s::text) IN (('PARSE_FAILED', 'FETCH_FAILED'),
                                                      ('FETCH_FAILED', 'PARSE_FAILED'))
                  THEN 1 ELSE passes + 1 END
WHERE oid = %(oid)s AND aid = %(aid)s AND section = %(section)s AND status <> 'STORED';

-- name: days_with_pages_waiting
-- Days before today that still have links to fetch, so that a run for them is worth its start.
SELECT day, array_agg(DISTINCT section) FROM news.listed_page
WHERE day < granary.today()
  AND status IN ('LISTED', 'PARSE_FAILED', 'FETCH_FAILED')
  AND (status = 'LISTED'
       OR (status = 'PARSE_FAILED' AND passes <= 3)
       OR (status = 'FETCH_FAILED' AND passes < 12
           AND looked_at + make_interval(mins => passes * passes) <= granary.now()))
GROUP BY day ORDER BY day DESC LIMIT %(limit)s;

-- name: list_was_read
SELECT EXISTS (SELECT FROM news.read_list WHERE day = %(day)s AND section = %(section)s);

-- name: note_read_list
INSERT INTO news.read_list (day, section, read_at) VALUES (%(day)s, %(section)s, granary.now())
ON CONFLICT (day, section) DO UPDATE SET read_at = excluded.read_at;

-- name: lock_page
-- Storing an article and taking it down exclude each other, whichever comes first.
SELECT pg_advisory_xact_lock(hashtext('news.page'), hashtext(%(oid)s || %(aid)s));

-- name: lock_day
-- One store at a time per day: near-duplicates are found exactly, and ids rise in commit order.
SELECT pg_advisory_xact_lock(hashtext('news.article.day'), %(day)s::date - date '2000-01-01');

-- name: originals_after
-- Signatures of the day's articles that are no duplicates, newer than an id.
SELECT id, similarity_signature FROM news.article
WHERE day = %(day)s AND id > %(after)s AND duplicate_of IS NULL ORDER BY id;

-- name: stored_article
SELECT id FROM news.article WHERE oid = %(oid)s AND aid = %(aid)s;

-- name: insert_article
-- Nothing comes back where another crawl stored it first, or where it was taken down.
INSERT INTO news.article
    (oid, aid, day, section, url, title, body, body_characters, input_hash, published_at, modified_at, press,
     reporter, thumbnail_url, similarity_signature, duplicate_of, crawl_permission, run_id, stored_at)
SELECT %(oid)s, %(aid)s, %(day)s, %(section)s, %(url)s, %(title)s, %(body)s, %(body_characters)s,
        %(input_hash)s, %(published_at)s, %(modified_at)s, %(press)s, %(reporter)s, %(thumbnail_url)s,
        %(similarity_signature)s, (SELECT id FROM news.article WHERE id = %(duplicate_of)s),
        %(crawl_permission)s, %(run_id)s, granary.now()
WHERE NOT EXISTS (SELECT FROM news.listed_page
                  WHERE oid = %(oid)s AND aid = %(aid)s AND status = 'TAKEN_DOWN')
ON CONFLICT ON CONSTRAINT article_is_stored_once DO NOTHING
RETURNING id;

-- name: add_section
INSERT INTO news.article_section (article_id, section) VALUES (%(article_id)s, %(section)s)
ON CONFLICT DO NOTHING;

-- name: articles_by_partition
SELECT wanted.day, wanted.section, count(article.id) AS articles,
       count(article.id) FILTER (WHERE article.duplicate_of IS NOT NULL) AS duplicates,
       count(article.id) FILTER (WHERE article.published_at IS NULL) AS without_date
FROM unnest(%(days)s::date[], %(sections)s::text[]) AS wanted (day, section)
LEFT JOIN news.article AS article ON article.day = wanted.day AND article.section = wanted.section
GROUP BY wanted.day, wanted.section;

-- name: pages_by_partition
SELECT wanted.day, wanted.section,
       count(page.oid) FILTER (WHERE page.status = 'LISTED'
                               OR (page.status = 'FETCH_FAILED' AND page.passes < 12)) AS waiting,
       count(page.oid) FILTER (WHERE page.status = 'PARSE_FAILED'
                               OR (page.status = 'FETCH_FAILED' AND page.passes >= 12)) AS unreadable
FROM unnest(%(days)s::date[], %(sections)s::text[]) AS wanted (day, section)
LEFT JOIN news.listed_page AS page ON page.day = wanted.day AND page.section = wanted.section
GROUP BY wanted.day, wanted.section;

-- name: pages_to_recheck
-- Stored articles of this section whose page may have changed: of the last days, each once an hour.
SELECT page.oid, page.aid, page.passes FROM news.listed_page AS page
JOIN news.article AS article USING (oid, aid)
WHERE page.day = %(day)s AND page.section = %(section)s AND article.section = page.section
  AND page.status = 'STORED' AND article.body_emptied_at IS NULL
  AND article.stored_at > granary.now() - make_interval(days => %(recheck_days)s)
  AND page.looked_at < granary.now() - interval '1 hour'
ORDER BY page.looked_at LIMIT 20;

-- name: look_again
UPDATE news.listed_page SET looked_at = granary.now()
WHERE oid = %(oid)s AND aid = %(aid)s AND section = %(section)s;

-- name: change_article
-- Its results are outdated now, since they were made of another input; they stay.
UPDATE news.article
SET title = %(title)s, body = %(body)s, body_characters = %(body_characters)s, input_hash = %(input_hash)s,
    modified_at = %(modified_at)s, similarity_signature = %(similarity_signature)s
WHERE oid = %(oid)s AND aid = %(aid)s AND input_hash <> %(input_hash)s AND body_emptied_at IS NULL
RETURNING id;

-- name: bodies_lately
-- Of the pages looked at within the hour: how many were stored, how many had no body.
SELECT count(*) FILTER (WHERE status = 'STORED'), count(*) FILTER (WHERE status = 'PARSE_FAILED')
FROM news.listed_page WHERE looked_at > granary.now() - interval '1 hour';

-- name: is_taken_down
SELECT EXISTS (SELECT FROM news.listed_page WHERE oid = %(oid)s AND aid = %(aid)s AND status = 'TAKEN_DOWN');

-- name: empty_bodies
UPDATE news.article SET body = '', body_emptied_at = granary.now()
WHERE body_emptied_at IS NULL AND stored_at < granary.now() - make_interval(days => %(retention_days)s)
RETURNING id;

-- name: forbid_page
-- Every link to the article is closed for good, so that no later crawl brings it back.
INSERT INTO news.listed_page (oid, aid, section, day, position, status, listed_at)
VALUES (%(oid)s, %(aid)s, 'TAKEN_DOWN', granary.today(), 0, 'TAKEN_DOWN', granary.now())
ON CONFLICT (oid, aid, section) DO NOTHING;

-- name: close_links
UPDATE news.listed_page SET status = 'TAKEN_DOWN', reason = 'taken down', looked_at = granary.now()
WHERE oid = %(oid)s AND aid = %(aid)s;

-- name: article_and_day
SELECT id, day FROM news.article WHERE oid = %(oid)s AND aid = %(aid)s;

-- name: lock_jobs
-- As a finish does, first the jobs and then the article, so that the two never wait for each other.
SELECT id FROM news.ai_job WHERE article_id = %(article_id)s ORDER BY id FOR UPDATE;

-- name: heir
-- The first of its near-duplicates, which takes its place for the others.
SELECT min(id) FROM news.article WHERE duplicate_of = %(article_id)s;

-- name: promote_heir
UPDATE news.article SET duplicate_of = CASE WHEN id = %(heir)s THEN NULL ELSE %(heir)s END
WHERE duplicate_of = %(article_id)s;

-- name: delete_article
-- With its sections, jobs and results, by the foreign keys.
DELETE FROM news.article WHERE id = %(article_id)s;

-- name: lock_term_cards
-- A takedown falls back on cards that the daily clearing up must not be deleting meanwhile, and the other way
-- round. In a statement of its own, so that the next one sees what the other did.
SELECT pg_advisory_xact_lock(hashtext('news.term_card'));

-- name: terms_of_article
SELECT DISTINCT term_id FROM news.term_card WHERE article_id = %(article_id)s;

-- name: forget_terms
-- Definitions that only the deleted article's cards gave; others stay as long as a card gives them, and then fall
-- back to the oldest card that is left.
WITH left_over AS (
    SELECT DISTINCT ON (card.term_id) card.term_id, card.term, card.definition
    FROM news.term_card AS card JOIN news.term ON term.id = card.term_id
    WHERE card.term_id = ANY(%(term_ids)s)
    ORDER BY card.term_id, card.definition <> term.definition, card.result_id
), kept AS (
    UPDATE news.term SET term = left_over.term, definition = left_over.definition
    FROM left_over WHERE term.id = left_over.term_id RETURNING term.id
)
DELETE FROM news.term WHERE id = ANY(%(term_ids)s) AND id NOT IN (SELECT term_id FROM left_over);
