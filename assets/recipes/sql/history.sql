-- What became of one recipe in Postgres. Reads only; its job record is in MongoDB.

-- name: now
SELECT granary.now();

-- name: recipe
SELECT recipe.id, recipe.title, recipe.run_id, recipe.is_published, recipe.parse_confidence, recipe.parse_issues,
       recipe.created_at, recipe.updated_at, embedding.updated_at AS embedded_at, embedding.version
FROM recipe.recipe AS recipe LEFT JOIN recipe.recipe_embedding AS embedding ON embedding.recipe_id = recipe.id
WHERE recipe.source = %(source)s AND recipe.source_recipe_id = %(source_id)s;

-- name: reviews
SELECT DISTINCT review.id
FROM recipe.recipe_ingredient AS line JOIN recipe.ingredient_review AS review ON review.id = line.review_id
WHERE line.recipe_id = %(recipe_id)s AND review.status = 'PENDING' ORDER BY review.id;
