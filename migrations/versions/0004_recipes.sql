-- recipes: recipes with their ingredients and vectors; and what batches have reserved. Job records are in MongoDB.

CREATE EXTENSION IF NOT EXISTS vector;

CREATE TABLE granary.batch_reservation (
    intent      text PRIMARY KEY,
    pipeline    text NOT NULL,
    model       text NOT NULL,
    day         date NOT NULL REFERENCES granary.spending_day,
    usd         numeric(14, 8) NOT NULL CHECK (usd >= 0),
    reserved_at timestamptz NOT NULL,
    settled_at  timestamptz
);
COMMENT ON TABLE granary.batch_reservation IS
    'What a batch may cost, until it is settled, once, to what it did cost. intent: the batch as it was planned.';

CREATE SCHEMA recipe;
COMMENT ON SCHEMA recipe IS 'The pipeline recipes.';

CREATE TABLE recipe.category (
    id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('recipe', 'ingredient')),
    name text NOT NULL CHECK (name <> ''),
    CONSTRAINT category_once UNIQUE (kind, name)
);

CREATE TABLE recipe.recipe (
    id                   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source               text NOT NULL,
    source_recipe_id     text NOT NULL,
    run_id               date NOT NULL,
    raw_hash             text NOT NULL,
    title                text NOT NULL CHECK (title <> ''),
    description          text NOT NULL,
    category_id          bigint REFERENCES recipe.category,
    servings             integer CHECK (servings BETWEEN 1 AND 100),
    difficulty           smallint NOT NULL CHECK (difficulty BETWEEN 1 AND 3),
    cooking_time_minutes smallint NOT NULL CHECK (cooking_time_minutes BETWEEN 5 AND 180),
    cooking_method       text,
    nutrition            jsonb NOT NULL DEFAULT '{}',
    image_url            text,
    tips                 text,
    parse_confidence     text NOT NULL CHECK (parse_confidence IN ('high', 'medium', 'low')),
    parse_issues         text[] NOT NULL DEFAULT '{}',
    is_published         boolean NOT NULL,
    created_at           timestamptz NOT NULL,
    updated_at           timestamptz NOT NULL,
    CONSTRAINT recipe_once UNIQUE (source, source_recipe_id),
    CONSTRAINT published_only_with_high_confidence CHECK (NOT is_published OR parse_confidence = 'high')
);
CREATE INDEX recipe_by_run ON recipe.recipe (run_id);

CREATE TABLE recipe.step (
    recipe_id bigint NOT NULL REFERENCES recipe.recipe ON DELETE CASCADE,
    position  integer NOT NULL,
    content   text NOT NULL,
    image_url text,
    PRIMARY KEY (recipe_id, position)
);

CREATE TABLE recipe.ingredient (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text NOT NULL,
    normalised  text NOT NULL CONSTRAINT ingredient_once UNIQUE,
    category_id bigint REFERENCES recipe.category,
    created_at  timestamptz NOT NULL,
    embedding_intent     text,
    embedding_claimed_at timestamptz
);
COMMENT ON COLUMN recipe.ingredient.embedding_intent IS
    'The batch that asks for its vector, or the run that is about to plan one: no two ask for the same.';

CREATE TABLE recipe.ingredient_alias (
    normalised    text PRIMARY KEY,
    ingredient_id bigint NOT NULL REFERENCES recipe.ingredient
);

CREATE TABLE recipe.ingredient_review (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text NOT NULL,
    normalised   text NOT NULL CONSTRAINT review_once UNIQUE,
    candidate_id bigint NOT NULL REFERENCES recipe.ingredient,
    score        double precision NOT NULL,
    status       text NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'APPROVED', 'REJECTED')),
    asked_at     timestamptz NOT NULL,
    decided_at   timestamptz,
    CHECK ((status = 'PENDING') = (decided_at IS NULL))
);
COMMENT ON TABLE recipe.ingredient_review IS
    'Names that may mean a known ingredient: a person decides. Until then their recipes have the name alone.';

CREATE TABLE recipe.recipe_ingredient (
    recipe_id     bigint NOT NULL REFERENCES recipe.recipe ON DELETE CASCADE,
    position      integer NOT NULL,
    ingredient_id bigint REFERENCES recipe.ingredient,
    review_id     bigint REFERENCES recipe.ingredient_review,
    name          text NOT NULL,
    quantity      text,
    unit          text,
    optional      boolean NOT NULL DEFAULT false,
    note          text,
    match_method  text NOT NULL CHECK (match_method IN ('exact', 'alias', 'fuzzy', 'vector', 'review', 'new')),
    match_score   double precision,
    PRIMARY KEY (recipe_id, position),
    CHECK ((match_method = 'review') = (ingredient_id IS NULL))
);
CREATE INDEX recipe_ingredient_by_ingredient ON recipe.recipe_ingredient (ingredient_id);
CREATE INDEX recipe_ingredient_in_review ON recipe.recipe_ingredient (review_id) WHERE review_id IS NOT NULL;

CREATE TABLE recipe.ingredient_embedding (
    ingredient_id   bigint PRIMARY KEY REFERENCES recipe.ingredient,
    embedding       vector(1536) NOT NULL,
    embedding_model text NOT NULL,
    updated_at      timestamptz NOT NULL
);

CREATE TABLE recipe.recipe_embedding (
    recipe_id         bigint PRIMARY KEY REFERENCES recipe.recipe ON DELETE CASCADE,
    embedding         vector(1536) NOT NULL,
    embedding_model   text NOT NULL,
    document_text     text NOT NULL,
    document_hash     text NOT NULL,
    version           integer NOT NULL DEFAULT 1,
    source_updated_at timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL
);
CREATE TABLE recipe.embedding_request (
    recipe_id     bigint PRIMARY KEY REFERENCES recipe.recipe ON DELETE CASCADE,
    intent        text NOT NULL,
    document_hash text NOT NULL
);
COMMENT ON TABLE recipe.embedding_request IS
    'The document that was last sent for a vector. The answer names the job alone, and the recipe may have changed.';
CREATE INDEX recipe_embedding_hnsw ON recipe.recipe_embedding USING hnsw (embedding vector_cosine_ops);
CREATE INDEX ingredient_embedding_hnsw ON recipe.ingredient_embedding USING hnsw (embedding vector_cosine_ops);
