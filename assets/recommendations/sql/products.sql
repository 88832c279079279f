-- Products with their vectors and popularity, and what members did. Written by the application, but for
-- the vectors.

-- name: products_after
SELECT product.id, product.name, product.category, product.text,
       CASE WHEN embedding.profile = %(profile)s THEN embedding.text_hash END,
       CASE WHEN refusal.profile = %(profile)s THEN refusal.text_hash END
FROM rec.product AS product
LEFT JOIN rec.product_embedding AS embedding ON embedding.product_id = product.id
LEFT JOIN rec.product_refusal AS refusal ON refusal.product_id = product.id
WHERE product.is_active AND product.id > %(after)s
ORDER BY product.id LIMIT %(limit)s;

-- name: lock_texts
-- Nobody changes a text between here and the store of its vector.
SELECT id, name, category, text FROM rec.product WHERE id = ANY(%(ids)s) ORDER BY id FOR SHARE;

-- name: store_vector
INSERT INTO rec.product_embedding (product_id, embedding, profile, text_hash, updated_at)
VALUES (%(product_id)s, %(vector)s, %(profile)s, %(text_hash)s, granary.now())
ON CONFLICT (product_id) DO UPDATE
SET embedding = excluded.embedding, profile = excluded.profile, text_hash = excluded.text_hash,
    updated_at = excluded.updated_at;

-- name: refuse
INSERT INTO rec.product_refusal (product_id, profile, text_hash, code, refused_at)
SELECT id, %(profile)s, %(text_hash)s, %(code)s, granary.now() FROM rec.product WHERE id = %(product_id)s
ON CONFLICT (product_id) DO UPDATE
SET profile = excluded.profile, text_hash = excluded.text_hash, code = excluded.code,
    refused_at = excluded.refused_at;

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
-- One row without an event for a member who has done nothing.
SELECT EXISTS (SELECT FROM rec.member_opt_out WHERE member_id = %(member_id)s),
       event.product_id, event.kind, event.weight, event.occurred_at
FROM (VALUES (1)) AS member
LEFT JOIN LATERAL (
    SELECT product_id, kind, least(weight, 1e6) AS weight, occurred_at FROM rec.member_event
    WHERE member_id = %(member_id)s
      AND occurred_at BETWEEN granary.now() - make_interval(days => %(days)s) AND granary.now()
    ORDER BY occurred_at DESC, id DESC LIMIT %(at_most)s
) AS event ON true;
