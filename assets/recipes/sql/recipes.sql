-- Recipes, their ingredients and vectors. Every time is granary.now(), the database's clock.

-- name: now
SELECT granary.now();

-- name: one_at_a_time
-- Two transactions that add the same ingredients in another order would wait for each other.
SELECT pg_advisory_xact_lock(hashtext('recipe.ingredient'));

-- name: known_names
SELECT id, name FROM recipe.ingredient WHERE id > %(after)s;

-- name: known_aliases
SELECT normalised, ingredient_id FROM recipe.ingredient_alias;

-- name: categories
SELECT name FROM recipe.category WHERE kind = %(kind)s ORDER BY name;

-- name: category
-- Found or made. The update changes nothing: it makes the row come back where another made it just now.
INSERT INTO recipe.category (kind, name) VALUES (%(kind)s, %(name)s)
ON CONFLICT (kind, name) DO UPDATE SET name = excluded.name
RETURNING id;

-- name: upsert_recipe
INSERT INTO recipe.recipe AS recipe
    (source, source_recipe_id, run_id, raw_hash, title, description, category_id, servings, difficulty,
     cooking_time_minutes, cooking_method, nutrition, image_url, tips, parse_confidence, parse_issues,
     is_published, created_at, updated_at)
VALUES
    (%(source)s, %(source_recipe_id)s, %(run_id)s, %(raw_hash)s, %(title)s, %(description)s, %(category_id)s,
     %(servings)s, %(difficulty)s, %(cooking_time_minutes)s, %(cooking_method)s, %(nutrition)s,
     %(image_url)s, %(tips)s, %(parse_confidence)s, %(parse_issues)s, %(is_published)s, granary.now(),
     granary.now())
ON CONFLICT (source, source_recipe_id) DO UPDATE SET
    run_id = excluded.run_id, raw_hash = excluded.raw_hash, title = excluded.title,
    description = excluded.description, category_id = excluded.category_id, servings = excluded.servings,
    difficulty = excluded.difficulty, cooking_time_minutes = excluded.cooking_time_minutes,
    cooking_method = excluded.cooking_method, nutrition = excluded.nutrition,
    image_url = excluded.image_url, tips = excluded.tips, parse_confidence = excluded.parse_confidence,
    parse_issues = excluded.parse_issues, is_published = excluded.is_published,
    updated_at = excluded.updated_at
RETURNING id;

-- name: delete_steps
DELETE FROM recipe.step WHERE recipe_id = %(recipe_id)s;

-- name: add_steps
INSERT INTO recipe.step (recipe_id, position, content, image_url)
SELECT %(recipe_id)s, position, content, image_url
FROM jsonb_to_recordset(%(steps)s) AS step (position integer, content text, image_url text);

-- name: delete_ingredients
DELETE FROM recipe.recipe_ingredient WHERE recipe_id = %(recipe_id)s;

-- name: add_recipe_ingredients
INSERT INTO recipe.recipe_ingredient
    (recipe_id, position, ingredient_id, review_id, name, quantity, unit, optional, note, match_method,
     match_score)
SELECT %(recipe_id)s, position, ingredient_id, review_id, name, quantity, unit, optional, note, match_method,
       match_score
FROM jsonb_to_recordset(%(ingredients)s)
    AS used (position integer, ingredient_id bigint, review_id bigint, name text, quantity text, unit text,
             optional boolean, note text, match_method text, match_score double precision);

-- name: add_ingredient
-- Found or made; true where it was made just now. The update changes nothing, and no key: setting one would
-- wait for everyone who refers to the row.
INSERT INTO recipe.ingredient AS known (name, normalised, category_id, created_at)
VALUES (%(name)s, %(normalised)s, %(category_id)s, granary.now())
ON CONFLICT (normalised) DO UPDATE SET name = known.name
RETURNING id, xmax = 0;

-- name: ask_for_review
INSERT INTO recipe.ingredient_review AS review (name, normalised, candidate_id, score, asked_at)
VALUES (%(name)s, %(normalised)s, %(candidate_id)s, %(score)s, granary.now())
ON CONFLICT (normalised) DO UPDATE SET name = review.name
RETURNING id, status, candidate_id;

-- name: reviews_waiting
SELECT review.id, review.name, candidate.name, review.score
FROM recipe.ingredient_review AS review JOIN recipe.ingredient AS candidate ON candidate.id = candidate_id
WHERE status = 'PENDING' ORDER BY review.id LIMIT %(limit)s;

-- name: decide_review
UPDATE recipe.ingredient_review SET status = %(status)s, decided_at = granary.now()
WHERE id = %(id)s AND status = 'PENDING'
RETURNING name, normalised, candidate_id;

-- name: add_alias
INSERT INTO recipe.ingredient_alias (normalised, ingredient_id) VALUES (%(normalised)s, %(ingredient_id)s)
ON CONFLICT (normalised) DO UPDATE SET ingredient_id = excluded.ingredient_id;

-- name: settle_reviewed
UPDATE recipe.recipe_ingredient
SET ingredient_id = %(ingredient_id)s, match_method = %(method)s, review_id = NULL
WHERE review_id = %(id)s;

-- name: nearest_ingredients
SELECT ingredient_id, embedding FROM recipe.ingredient_embedding
WHERE embedding_model = %(model)s ORDER BY embedding <=> %(vector)s LIMIT 3;

-- name: store_ingredient_embedding
INSERT INTO recipe.ingredient_embedding (ingredient_id, embedding, embedding_model, updated_at)
VALUES (%(ingredient_id)s, %(vector)b, %(model)s, granary.now())
ON CONFLICT (ingredient_id) DO UPDATE
SET embedding = excluded.embedding, embedding_model = excluded.embedding_model,
    updated_at = excluded.updated_at;

-- name: ingredients_without_embedding
SELECT DISTINCT ingredient_id FROM recipe.recipe_ingredient AS used
WHERE recipe_id = %(recipe_id)s AND ingredient_id IS NOT NULL
  AND NOT EXISTS (SELECT FROM recipe.ingredient_embedding AS known
                  WHERE known.ingredient_id = used.ingredient_id)
ORDER BY ingredient_id;

-- name: recipes_to_embed
SELECT recipe.id, source, source_recipe_id, title, description, category.name AS category,
       cooking_time_minutes, difficulty, servings, cooking_method, nutrition, recipe.updated_at,
       (SELECT coalesce(jsonb_agg(concat_ws(' ', name, quantity, unit) ORDER BY position), '[]')
        FROM recipe.recipe_ingredient WHERE recipe_id = recipe.id) AS ingredients,
       (SELECT coalesce(jsonb_agg(content ORDER BY position), '[]')
        FROM recipe.step WHERE recipe_id = recipe.id) AS steps,
       embedding.document_hash, embedding.embedding_model
FROM recipe.recipe
LEFT JOIN recipe.category ON category.id = category_id
LEFT JOIN recipe.recipe_embedding AS embedding ON embedding.recipe_id = recipe.id
WHERE source = %(source)s AND source_recipe_id = ANY(%(ids)s);

-- name: store_recipe_embedding
INSERT INTO recipe.recipe_embedding AS known
    (recipe_id, embedding, embedding_model, document_text, document_hash, source_updated_at, updated_at)
VALUES (%(recipe_id)s, %(vector)b, %(model)s, %(text)s, %(hash)s, %(source_updated_at)s, granary.now())
ON CONFLICT (recipe_id) DO UPDATE
SET embedding = excluded.embedding, embedding_model = excluded.embedding_model,
    document_text = excluded.document_text, document_hash = excluded.document_hash,
    version = known.version + 1, source_updated_at = excluded.source_updated_at,
    updated_at = excluded.updated_at
WHERE known.source_updated_at <= excluded.source_updated_at;

-- name: search_on
-- The index gives 40 rows, of which a filter may leave too few; with this it goes on until there are enough.
SELECT set_config('hnsw.iterative_scan', 'strict_order', true);

-- name: similar_to_vector
SELECT recipe.id, recipe.title, 1 - (embedding <=> %(vector)s) AS similarity
FROM recipe.recipe_embedding JOIN recipe.recipe ON recipe.id = recipe_id
WHERE embedding_model = %(model)s AND (is_published OR NOT %(published_only)s)
ORDER BY embedding <=> %(vector)s LIMIT %(k)s;

-- name: similar_to_recipe
-- Subqueries and no join: the index gives an order by a value, not by a column.
WITH this AS MATERIALIZED
    (SELECT embedding, embedding_model FROM recipe.recipe_embedding WHERE recipe_id = %(recipe_id)s)
SELECT recipe.id, recipe.title, 1 - (embedding <=> (SELECT this.embedding FROM this)) AS similarity
FROM recipe.recipe_embedding JOIN recipe.recipe ON recipe.id = recipe_id
WHERE embedding_model = (SELECT this.embedding_model FROM this) AND recipe_id <> %(recipe_id)s AND is_published
ORDER BY embedding <=> (SELECT this.embedding FROM this) LIMIT %(k)s;

-- name: counts_of_run
SELECT count(*), count(*) FILTER (WHERE is_published), count(embedding.recipe_id)
FROM recipe.recipe LEFT JOIN recipe.recipe_embedding AS embedding ON embedding.recipe_id = recipe.id
WHERE run_id = %(run_id)s;

-- name: match_methods_of_run
SELECT match_method, count(*) FROM recipe.recipe_ingredient JOIN recipe.recipe ON recipe.id = recipe_id
WHERE run_id = %(run_id)s GROUP BY match_method ORDER BY match_method;

-- name: sample_of_run
SELECT recipe_id, embedding::real[] FROM recipe.recipe_embedding JOIN recipe.recipe ON recipe.id = recipe_id
WHERE run_id = %(run_id)s ORDER BY recipe_id LIMIT 1;

-- name: room_today
-- What the day's cap leaves, NULL without a cap.
SELECT %(cap)s::numeric - coalesce((SELECT reserved_usd + spent_usd FROM granary.spending_day
                                    WHERE day = granary.today()), 0);

-- name: claim_ingredients
-- Those named, and those that an earlier batch brought no vector for. A claim that is an hour old is a dead
-- run's, unless it is that of an open batch.
UPDATE recipe.ingredient SET embedding_intent = %(claimed_by)s, embedding_claimed_at = granary.now()
WHERE id IN (
    SELECT id FROM recipe.ingredient
    WHERE (id = ANY(%(ids)s) OR embedding_claimed_at IS NOT NULL)
      AND (embedding_intent IS NULL
           OR (embedding_claimed_at < granary.now() - interval '1 hour'
               AND embedding_intent <> ALL(%(open_intents)s::text[])))
      AND NOT EXISTS (SELECT FROM recipe.ingredient_embedding AS known
                      WHERE known.ingredient_id = ingredient.id AND known.embedding_model = %(model)s)
    ORDER BY id LIMIT %(limit)s FOR NO KEY UPDATE)
RETURNING id, name;

-- name: hand_over_ingredients
UPDATE recipe.ingredient SET embedding_intent = %(intent)s, embedding_claimed_at = granary.now()
WHERE id = ANY(%(ids)s) AND embedding_intent = %(claimed_by)s;

-- name: free_ingredients
UPDATE recipe.ingredient SET embedding_intent = NULL WHERE embedding_intent = %(holder)s;

-- name: note_sent_documents
INSERT INTO recipe.embedding_request AS request (recipe_id, intent, document_hash)
SELECT recipe.id, %(intent)s, sent.hash
FROM jsonb_to_recordset(%(sent)s) AS sent (source text, source_recipe_id text, hash text)
JOIN recipe.recipe USING (source, source_recipe_id)
ORDER BY recipe.id
ON CONFLICT (recipe_id) DO UPDATE SET intent = excluded.intent, document_hash = excluded.document_hash;

-- name: sent_documents
SELECT recipe_id, document_hash FROM recipe.embedding_request
WHERE recipe_id = ANY(%(ids)s) AND intent = %(intent)s;
