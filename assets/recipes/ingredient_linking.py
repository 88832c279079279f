"""Links the names in recipes to known ingredients, as `ingredient_match` decides, within the transactions.

Names that no spelling tells are embedded before the transactions, all of a chunk in one request.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import psycopg

from assets.recipes import recipe_store
from assets.recipes.ingredient_match import Match, known_ingredients, match
from assets.recipes.ingredient_name import normalised
from assets.recipes.parsed_recipe import ParsedIngredient
from assets.recipes.recipe_store import MatchedIngredient, Vector

Embed = Callable[[Sequence[str]], Mapping[str, Vector]]


class IngredientLinking:
    """The known ingredients for the length of a run, with what the run adds."""

    def __init__(self, connection: psycopg.Connection, embedding_model: str) -> None:
        self._connection = connection
        self._model = embedding_model
        self._vectors: dict[str, Vector] = {}
        self.forget()

    def forget(self) -> None:
        """Reads anew what is known: a transaction that was rolled back had added to it."""
        names = recipe_store.known_names(self._connection)
        self._known = known_ingredients(names, recipe_store.known_aliases(self._connection), None)
        self._last_id = max(names, default=0)

    def take_turn(self) -> None:
        """Until the transaction ends no other adds ingredients; what others have added is known."""
        recipe_store.one_at_a_time(self._connection)
        for ingredient_id, name in recipe_store.known_names(self._connection, self._last_id).items():
            self._known.add(ingredient_id, name)
            self._last_id = max(self._last_id, ingredient_id)

    def embed_unknown(self, ingredients: Iterable[ParsedIngredient], embed: Embed) -> None:
        """Asks for the vectors of the names that no spelling tells and that have none yet, in one call.

        Those of other names are dropped: a run's memory does not grow with its recipes.
        """
        unknown = {
            key_of(one.name): one.name
            for one in ingredients
            if match(one.name, self._known, canonical=one.canonical_name).method == "new"
        }
        self._vectors = {key: vector for key, vector in self._vectors.items() if key in unknown}
        missing = {key: name for key, name in unknown.items() if key not in self._vectors}
        if missing:
            vectors = embed(list(missing.values()))
            self._vectors.update({key: vectors[name] for key, name in missing.items() if name in vectors})

    def link(self, ingredient: ParsedIngredient) -> MatchedIngredient:
        """The line with its ingredient, found or added, or with the review that will decide."""
        found, review_id = self._match(ingredient), None
        if found.method == "review":
            found, review_id = self._reviewed(ingredient, found)
        elif found.method == "new":
            found = self._add(ingredient)
        return MatchedIngredient(
            name=ingredient.name,
            quantity=ingredient.quantity,
            unit=ingredient.unit,
            optional=ingredient.optional,
            note=ingredient.note,
            ingredient_id=found.ingredient_id,
            review_id=review_id,
            match_method=found.method,
            match_score=found.score,
        )

    def _match(self, ingredient: ParsedIngredient) -> Match:
        found = match(ingredient.name, self._known, canonical=ingredient.canonical_name)
        vector = self._vectors.get(key_of(ingredient.name))
        if found.method != "new" or vector is None:
            return found
        near = recipe_store.nearest_ingredients(self._connection, vector, self._model)
        return match(ingredient.name, known_ingredients({}, {}, near), vector=vector)

    def _reviewed(self, ingredient: ParsedIngredient, found: Match) -> tuple[Match, int | None]:
        """What a person has decided of the name, or the review that asks."""
        assert found.candidate_id is not None
        key = key_of(ingredient.name)
        review = recipe_store.ask_for_review(
            self._connection, ingredient.name, key, found.candidate_id, found.score
        )
        if review.status == "APPROVED":
            return Match(review.candidate_id, "alias", 1.0), None
        return (self._add(ingredient), None) if review.status == "REJECTED" else (found, review.id)

    def _add(self, ingredient: ParsedIngredient) -> Match:
        key = key_of(ingredient.name)
        ingredient_id, is_new = recipe_store.add_ingredient(
            self._connection, ingredient.name, key, ingredient.category
        )
        if key in self._vectors:
            recipe_store.store_ingredient_vectors(
                self._connection, [(ingredient_id, self._vectors[key])], self._model
            )
        self._known.add(ingredient_id, ingredient.name)
        return Match(ingredient_id, "new", 0.0) if is_new else Match(ingredient_id, "exact", 1.0)


def key_of(name: str) -> str:
    """The normalised name; a name of which nothing is left by that stands for itself."""
    return normalised(name) or name
