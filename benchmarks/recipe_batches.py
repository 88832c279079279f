"""50,000 recipes from their rows through a parse batch, against 5,000: memory, and time per job."""

from benchmarks.bench import Bench
from benchmarks.row import Peer, Row, row

MEGABYTE = 1_000_000
STAGES = ("fetch", "submit", "retrieve")


def measure(bench: Bench) -> list[Row]:
    """Neither grows with the square of the jobs: a job of many costs about what a job of few does.

    The wall time is mostly the local MongoDB's, which sorts all that waits for every claim: its own rows.
    """
    few, many = bench.size(5_000, 200), bench.size(50_000, 2_000)
    short, long = _run(bench, few), _run(bench, many)

    def each(name: str, stage: str, limit: float | None = None) -> Row:
        value, other = long[f"{stage}_seconds"] * 1_000 / many, short[f"{stage}_seconds"] * 1_000 / few
        return row(
            f"recipe_batches: {name}", value, "ms/job", Peer(f"{few:,} jobs", other), ratio_at_most=limit
        )

    memory = Peer(f"{few:,} jobs", short["peak_bytes"] / MEGABYTE)
    peak = long["peak_bytes"] / MEGABYTE
    return [
        row(f"recipe_batches: {many:,} jobs", peak, "MB peak", memory, ratio_at_most=1.3),
        each("CPU of our process", "cpu", limit=1.3),
        *(each(f"{stage}, with the local MongoDB", stage) for stage in STAGES),
    ]


def _run(bench: Bench, jobs: int) -> dict[str, float]:
    database = bench.database(f"bench_recipes_{jobs}")
    bench.say(f"taking {jobs:,} recipes from their rows to what was read of them")
    return bench.child(
        "benchmarks.recipe_batches_process",
        jobs=jobs,
        database_url=database,
        mongo_uri=bench.stack.environment()["MONGODB_URI"],
        mongo_database=f"bench_recipes_{jobs}",
    )
