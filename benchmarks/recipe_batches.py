"""50,000 recipes from their rows through a parse batch, against 5,000: memory, and time per job."""

from benchmarks.bench import Bench
from benchmarks.row import Peer, Row, row

MEGABYTE = 1_000_000
STAGES = ("fetch", "submit", "retrieve")


def measure(bench: Bench) -> list[Row]:
    """Neither grows with the square of the jobs: a job of many costs about what a job of few does."""
    few, many = bench.size(5_000, 200), bench.size(50_000, 2_000)
    short, long = _run(bench, few), _run(bench, many)
    peer = Peer(f"{few:,} jobs", short["peak_bytes"] / MEGABYTE)
    rows = [
        row(
            f"recipe_batches: {many:,} jobs",
            long["peak_bytes"] / MEGABYTE,
            "MB peak",
            peer,
            ratio_at_most=1.3,
        )
    ]
    for stage in (*STAGES, "all"):
        stages = STAGES if stage == "all" else (stage,)
        one, other = (
            sum(found[f"{name}_seconds"] for name in stages) * 1_000 / count
            for found, count in ((long, many), (short, few))
        )
        limit = {"ratio_at_most": 1.3} if stage == "all" else {}
        rows.append(row(f"recipe_batches: {stage}", one, "ms/job", Peer(f"{few:,} jobs", other), **limit))
    rows.append(row("recipe_batches: CPU", long["cpu_seconds"] * 1_000 / many, "ms/job"))
    return rows


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
