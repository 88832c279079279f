"""The asset check of recipes: that a recipe whose text is known is found by it."""

import dagster as dg
import psycopg

from assets.recipes import recipe_store

MOST_LOOKED_AT = 3

FOUND = dg.AssetCheckSpec(
    "known_recipe_finds_itself",
    asset="recipe_embeddings",
    description="The vector of a stored recipe finds that recipe first, through the index.",
)


def found(connection: psycopg.Connection, model: str, run_id: str) -> dg.AssetCheckResult:
    """Fails where a recipe of the day is not the first that its own vector finds; without one it passes."""
    sample = recipe_store.sample_of_run(connection, run_id)
    if sample is None:
        return dg.AssetCheckResult(
            check_name=FOUND.name, passed=True, metadata={"recipe_id": "none has a vector yet"}
        )
    recipe_id, vector = sample
    nearest = recipe_store.recipes_similar_to_vector(
        connection, vector, model, MOST_LOOKED_AT, published_only=False
    )
    best = nearest[0].similarity if nearest else 0.0
    # Two recipes of one text have one vector: which of them comes first says nothing.
    equal = {one.id for one in nearest if best - one.similarity < 1e-6}
    return dg.AssetCheckResult(
        check_name=FOUND.name,
        passed=recipe_id in equal,
        metadata={"recipe_id": recipe_id, "similarity": best},
    )
