"""The benchmark of batches goes through the stages as they are; its provider must answer all they ask."""

from benchmarks.recipe_batches_process import Order, run
from local_stack.mongo_server import MongoServer
from tests.integration.recipes.job_records import Mongo


def test_the_benchmark_reads_every_recipe(db: Mongo, mongo_server: MongoServer, database_url: str) -> None:
    measured = run(Order(40, database_url, mongo_server.address, db.name))
    assert measured["batches"] == 1
    # A difference of two: of so few recipes it may be lost in what the clock is off.
    assert measured.pop("cpu_seconds") > -0.1
    assert min(measured.values()) > 0
