"""Batches that have recipes parsed: a line a job, and answers that become the job's `retrieved_data`."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import psycopg

from assets.recipes import job_store, recipe_store
from assets.recipes.batch_kinds import PARSE, Line, Read, Stages, Written
from assets.recipes.models import BatchIntent, Job
from assets.recipes.parsed_recipe import UnusableRecipe, read_parsed
from assets.recipes.prompt import parse_request
from resources.batch_lines import Body, content_of, request_line

if TYPE_CHECKING:
    from assets.recipes.job_store import Mongo


class ParseContent:
    """What parse batches ask and read, by one model."""

    stages: Stages = PARSE

    def __init__(self, db: "Mongo", connection: psycopg.Connection, model: str) -> None:
        self._db = db
        self._connection = connection
        self._model = model

    def write(self, jobs: Sequence[Job], claimed_by: str) -> Written:
        """A line for each job that has a row."""
        written = Written()
        recipe_categories, ingredient_categories = self._categories
        for job in job_store.jobs(self._db, [job.id for job in jobs], ("raw_data",)):
            if not job.raw_data:
                written.unusable[job.id] = "no row"
                continue
            body = parse_request(job.raw_data, recipe_categories, ingredient_categories, self._model)
            data = request_line(job.id, PARSE.endpoint, body)
            written.lines.append((Line(job.id, len(data), PARSE.most_output_tokens), data))
        return written

    def planned(self, intent: BatchIntent, lines: Sequence[Line]) -> None:
        """Nothing: a line is its job's alone."""

    def given_up(self, holder: str) -> None:
        """Nothing: a line is its job's alone."""

    def read(self, intent: BatchIntent, jobs: Sequence[Job], bodies: Mapping[str, Body]) -> Read:
        """The recipes, as fields of their jobs."""
        read = Read()
        for job in jobs:
            try:
                parsed = read_parsed(content_of(bodies[job.id]))
            except UnusableRecipe as unusable:
                read.unusable[job.id] = f"unusable: {unusable}"
            except ValueError:
                read.unusable[job.id] = "unreadable"
            else:
                read.good.append((job.id, {"retrieved_data": parsed.model_dump(mode="json")}))
        return read

    def read_ingredients(self, intent: BatchIntent, bodies: Mapping[int, Body]) -> dict[int, str]:
        """Nothing: no line of these batches is an ingredient's."""
        return {}

    @cached_property
    def _categories(self) -> tuple[list[str], list[str]]:
        """Of recipes and of ingredients, read once a run: those of the day before are enough."""
        return (
            recipe_store.categories(self._connection, "recipe"),
            recipe_store.categories(self._connection, "ingredient"),
        )
