"""A run of a batch stage that kills itself, as the kernel would, at a named point: `python -m ….killed_run`.

Reads what to run from its standard input, a JSON object a line, forks a run for each and says how it ended:
the imports, most of such a run's time, are paid once. Production code knows nothing of the points.
"""

import json
import os
import sys
from collections.abc import Callable

import psycopg
from pymongo import MongoClient
from pymongo.collection import Collection

from assets.recipes import batch_store, embedding_store, job_store, recipe_store
from assets.recipes.parse_batches import ParseContent
from resources import batch_spending
from resources.batches import BatchApi
from tests.integration.fatal_calls import after, before
from tests.integration.late_imports import import_all
from tests.integration.recipes.batch_runs import Runs

RUN = "killed:0"
LIMITS = {"max_lines": 2}

Points = dict[str, Callable[[], None]]

# The first of two batches goes well where a call is let through, so that something is done by then.
SUBMISSION: Points = {
    "after the claim": lambda: before(ParseContent, "write", 0),
    "between two batches": lambda: before(batch_store, "plan", 1),
    "between the intent and its jobs": lambda: after(Collection, "insert_one", 0),
    "before the money": lambda: before(batch_spending, "reserve", 1),
    "after the money": lambda: after(batch_spending, "reserve", 0),
    "after the upload": lambda: after(BatchApi, "upload", 1),
    "before the creation": lambda: before(BatchApi, "create", 0),
    "after the creation": lambda: after(BatchApi, "create", 1),
    "before the jobs follow": lambda: after(batch_store, "mark_submitted", 0),
}
RETRIEVAL: Points = {
    "after the download": lambda: after(BatchApi, "download_to", 1),
    "before the finish": lambda: before(job_store, "finish_each", 1),
    "after the finish": lambda: after(job_store, "finish_each", 0),
    "before the money": lambda: before(batch_spending, "settle", 1),
    "before the commit of the money": lambda: after(batch_spending, "settle", 0),
    "before the end": lambda: before(batch_store, "mark_retrieved", 0),
    "before the files are deleted": lambda: after(batch_store, "mark_retrieved", 1),
    "in the middle of deleting": lambda: after(BatchApi, "delete_file", 0),
}
EMBED_SUBMISSION: Points = {
    "after ingredients are claimed": lambda: after(embedding_store, "claim_ingredients", 0),
    "before ingredients are the intent's": lambda: before(embedding_store, "hand_over_ingredients", 0),
    "after documents are noted": lambda: after(embedding_store, "note_sent_documents", 0),
    "after the creation": lambda: after(BatchApi, "create", 0),
}
EMBED_RETRIEVAL: Points = {
    "after ingredients are stored": lambda: after(recipe_store, "store_ingredient_vectors", 0),
    "after vectors are stored": lambda: after(recipe_store, "store_recipe_vectors", 0),
    "after ingredients are free": lambda: after(embedding_store, "free_ingredients", 0),
}
POINTS = {
    ("parse", "submit"): SUBMISSION,
    ("parse", "retrieve"): RETRIEVAL,
    ("embed", "submit"): EMBED_SUBMISSION,
    ("embed", "retrieve"): EMBED_RETRIEVAL,
}


def run(kind: str, stage: str, point: str, database_url: str, mongo: str, database: str, api: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        client: MongoClient[dict[str, object]] = MongoClient(mongo, tz_aware=True)
        runs = Runs(client[database], connection, api)
        POINTS[kind, stage][point]()
        if stage == "submit":
            runs.submit(kind, RUN, LIMITS)
        else:
            runs.retrieve(kind, RUN)


def main() -> None:
    import_all()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(**json.loads(line))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
