"""The memory of reading a raw file of 500 MB, against one of 100 MB."""

from benchmarks.bench import Bench
from benchmarks.row import Peer, Row, row

MEGABYTE = 1_000_000


def measure(bench: Bench) -> list[Row]:
    """The smaller file fills what is remembered of hosts, too. The making of the files is not counted."""
    small, large = bench.size(100, 5), bench.size(500, 20)
    short, long = _read(bench, small), _read(bench, large)
    peer = Peer(f"a file of {small} MB", short["peak_bytes"] / MEGABYTE)
    seconds = long["cpu_seconds"]
    return [
        row(f"raw_streaming: {large} MB", long["peak_bytes"] / MEGABYTE, "MB peak", peer, ratio_at_most=1.1),
        row("raw_streaming: speed", large / seconds, "MB/CPU-s"),
        row("raw_streaming: items", long["items"] / seconds, "items/CPU-s"),
    ]


def _read(bench: Bench, megabytes: int) -> dict[str, float]:
    bench.say(f"reading a raw file of {megabytes} MB")
    return bench.child("benchmarks.raw_reading_process", megabytes=megabytes)
