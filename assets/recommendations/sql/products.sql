-- Products with their vectors and popularity, and what members did. Written by the application, but for
-- the vectors.

-- name: products_after
-- No text of a product whose columns are still those that its vector, or its refusal, is of.
SELECT product.id, product.name, product.category, product.text, product.source_hash,
       embedding.text_hash, refusal.text_hash
FROM rec.product AS product
LEFT JOIN rec.product_embedding AS embedding
       ON embedding.product_id = product.id AND embedding.profile = %(profile)s
LEFT JOIN rec.product_refusal AS refusal
       ON refusal.product_id = product.id AND refusal.profile = %(profile)s
WHERE product.is_active AND product.id > %(after)s
  AND embedding.source_hash IS DISTINCT FROM %(version)s || product.source_hash
  AND refusal.source_hash IS DISTINCT FROM %(version)s || product.source_hash
ORDER BY product.id LIMIT %(limit)s;

-- name: note_same_embedded
UPDATE rec.product_embedding AS embedding SET source_hash = same.source_hash
FROM unnest(%(ids)s::bigint[], %(text_hashes)s::text[], %(source_hashes)s::text[])
     AS same (product_id, text_hash, source_hash)
WHERE embedding.product_id = same.product_id AND embedding.text_hash = same.text_hash
  AND embedding.profile = %(profile)s;

-- name: note_same_refused
UPDATE rec.product_refusal AS refusal SET source_hash = same.source_hash
FROM unnest(%(ids)s::bigint[], %(text_hashes)s::text[], %(source_hashes)s::text[])
     AS same (product_id, text_hash, source_hash)
WHERE refusal.product_id = same.product_id AND refusal.text_hash = same.text_hash
  AND refusal.profile = %(profile)s;

-- name: lock_texts
-- Nobody changes a text between here and the store of its vector.
SELECT id, name, category, text, source_hash FROM rec.product
WHERE id = ANY(%(ids)s) ORDER BY id FOR SHARE;

-- name: store_vector
INSERT INTO rec.product_embedding (product_id, embedding, profile, text_hash, source_hash, updated_at)
VALUES (%(product_id)s, %(vector)s, %(profile)s, %(text_hash)s, %(source_hash)s, granary.now())
ON CONFLICT (product_id) DO UPDATE
SET embedding = excluded.embedding, profile = excluded.profile, text_hash = excluded.text_hash,
    source_hash = excluded.source_hash, updated_at = excluded.updated_at;

-- name: refuse
INSERT INTO rec.product_refusal (product_id, profile, text_hash, source_hash, code, refused_at)
SELECT id, %(profile)s, %(text_hash)s, %(source_hash)s, %(code)s, granary.now()
FROM rec.product WHERE id = %(id)s
ON CONFLICT (product_id) DO UPDATE
SET profile = excluded.profile, text_hash = excluded.text_hash,
    source_hash = excluded.source_hash, code = excluded.code, refused_at = excluded.refused_at;

-- name: catalogue
-- Popularity as of now; ten half-lives back, where nothing counts a thousandth any more. A weight of more
-- than a million counts as that, so that no sum is without bounds.
SELECT product.id, product.category, product.is_active, coalesce(popularity.weight, 0), embedding.embedding
FROM rec.product AS product
LEFT JOIN rec.product_embedding AS embedding
       ON embedding.product_id = product.id AND embedding.profile = %(profile)s
LEFT JOIN (
    SELECT product_id,
           sum(least(weight, 1e6)
               * power(0.5, extract(epoch FROM granary.now() - occurred_at)::double precision / %(half_life)s))
           AS weight
    FROM rec.member_event
    WHERE occurred_at BETWEEN granary.now() - make_interval(secs => 10 * %(half_life)s) AND granary.now()
    GROUP BY product_id
) AS popularity ON popularity.product_id = product.id
ORDER BY product.id;

-- name: history
-- One row without an event for a member who has done nothing. What was bought is never left out: not for
-- the newer events that are as many as are read, nor since the clock of whoever wrote it is ahead.
WITH newest AS MATERIALIZED (
    SELECT id, product_id, kind, least(weight, 1e6) AS weight, occurred_at FROM rec.member_event
    WHERE member_id = %(member_id)s
      AND occurred_at BETWEEN granary.now() - make_interval(days => %(days)s) AND granary.now()
    ORDER BY occurred_at DESC, id DESC LIMIT %(at_most)s
), bought AS (
    SELECT product_id, least(max(occurred_at), granary.now()) AS occurred_at FROM rec.member_event
    WHERE member_id = %(member_id)s AND kind = 'purchase'
      AND occurred_at >= granary.now() - make_interval(days => %(bought_days)s)
      AND id NOT IN (SELECT id FROM newest)
    GROUP BY product_id
)
SELECT EXISTS (SELECT FROM rec.member_opt_out WHERE member_id = %(member_id)s),
       event.product_id, event.kind, event.weight, event.occurred_at
FROM (VALUES (1)) AS member
LEFT JOIN (
    SELECT product_id, kind, weight, occurred_at, id FROM newest
    UNION ALL
    SELECT product_id, 'purchase', 0, occurred_at, NULL FROM bought
) AS event ON true
ORDER BY event.occurred_at DESC, event.id DESC;
