"""Links the names in recipes to known ingredients, as `ingredient_match` decides, within the transactions.

Names that no spelling tells are embedded before the transactions, all of a chunk in one request.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import psycopg

from assets.recipes import recipe_store
from assets.recipes.ingredient_match import KnownIngredients, Match, known_ingredients, match
from assets.recipes.ingredient_name import normalised
from assets.recipes.parsed_recipe import ParsedIngredient
from assets.recipes.recipe_store import MatchedIngredient, Vector

Embed = Callable[[Sequence[str]], Mapping[str, Vector]]


class IngredientLinking:
    """The known ingredients for the length of a run, with what the run adds."""

    def __init__(self, connection: psycopg.Connection, embedding_model: str) -> None:
        self._connection = connection
        self._model = embedding_model
        self._known = self._read()
        self._vectors: dict[str, Vector] = {}

    def forget(self) -> None:
        """Reads anew what is known: a transaction that was rolled back had added to it."""
        self._known = self._read()

    def embed_unknown(self, ingredients: Iterable[ParsedIngredient], embed: Embed) -> None:
        """Asks for the vectors of the names that no spelling tells and that have none yet, in one call."""
        unknown = {
            key_of(one.name): one.name
            for one in ingredients
            if match(one.name, self._known, canonical=one.canonical_name).method == "new"
        }
        missing = {key: name for key, name in unknown.items() if key not in self._vectors}
        if missing:
            vectors = embed(list(missing.values()))
            self._vectors.update({key: vectors[name] for key, name in missing.items() if name in vectors})

    def link(self, ingredient: ParsedIngredient) -> MatchedIngredient:
        """The line with its ingredient, found or added, or with the review that will decide."""
        found = self._match(ingredient)
        review_id, ingredient_id, method = None, found.ingredient_id, str(found.method)
        if found.method == "review":
            assert found.candidate_id is not None
            review_id, status = recipe_store.ask_for_review(
                self._connection,
                ingredient.name,
                key_of(ingredient.name),
                found.candidate_id,
                found.score,
            )
            if status == "REJECTED":  # a person has said before that it is a food of its own
                review_id, ingredient_id, method = None, self._add(ingredient), "new"
            elif status == "APPROVED":
                review_id, ingredient_id, method = None, found.candidate_id, "alias"
        elif found.method == "new":
            ingredient_id = self._add(ingredient)
        return MatchedIngredient(
            name=ingredient.name,
            quantity=ingredient.quantity,
            unit=ingredient.unit,
            optional=ingredient.optional,
            note=ingredient.note,
            ingredient_id=ingredient_id,
            review_id=review_id,
            match_method=method,
            match_score=found.score,
        )

    def _match(self, ingredient: ParsedIngredient) -> Match:
        found = match(ingredient.name, self._known, canonical=ingredient.canonical_name)
        vector = self._vectors.get(key_of(ingredient.name))
        if found.method != "new" or vector is None:
            return found
        near = recipe_store.nearest_ingredients(self._connection, vector, self._model)
        return match(ingredient.name, known_ingredients({}, {}, near), vector=vector)

    def _add(self, ingredient: ParsedIngredient) -> int:
        key = key_of(ingredient.name)
        ingredient_id, _ = recipe_store.add_ingredient(
            self._connection, ingredient.name, key, ingredient.category
        )
        if key in self._vectors:
            recipe_store.store_ingredient_vectors(
                self._connection, [(ingredient_id, self._vectors[key])], self._model
            )
        self._known.add(ingredient_id, ingredient.name)
        return ingredient_id

    def _read(self) -> KnownIngredients:
        return known_ingredients(*recipe_store.known_names(self._connection), None)


def key_of(name: str) -> str:
    """The normalised name; a name of which nothing is left by that stands for itself."""
    return normalised(name) or name
