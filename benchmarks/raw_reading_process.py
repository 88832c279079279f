"""A raw file read in a process of its own: `python -m benchmarks.raw_reading_process '{"megabytes": 500}'`.

So that its memory is its alone. Prints one JSON line. The file is made while it is read, and stands nowhere.
"""

import json
import sys
import time
from pathlib import Path
from typing import BinaryIO, cast

from assets.raw_files.raw_document import ItemCounts, items_in

# More than are remembered, and they come round: every one has to be looked up again, the worst case.
HOSTS = 50_000
ITEMS_A_BLOCK = 500


class GeneratedFile:
    """A raw file of about so many bytes: objects with Korean texts and a field that is of no use."""

    def __init__(self, size: int) -> None:
        self.cpu_seconds = 0.0  # that making it took
        self._left = size
        self._number = 0
        self._buffer = bytearray(b'{"country": "kr", "category": "news", "items": [')

    def read(self, size: int = -1) -> bytes:
        """The next bytes, at most `size` of them; b"" at the end."""
        started = time.process_time()
        while len(self._buffer) < size and self._left > 0:
            block = self._block()
            self._left -= len(block)
            self._buffer += block if self._left > 0 else block.rstrip(b",") + b"]}"
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        self.cpu_seconds += time.process_time() - started
        return taken

    def _block(self) -> bytes:
        first, self._number = self._number, self._number + ITEMS_A_BLOCK
        return "".join(map(_entry, range(first, self._number))).encode()


def _entry(number: int) -> str:
    return (
        f'{{"url": "https://www.shop-{number % HOSTS}.co.kr/p/{number}?from=list", "rank": {number}, '
        f'"title": "{number}번째 가게의 새 소식", "description": "오늘 들어온 물건과 값을 알려 드립니다.", '
        f'"seen": {{"by": ["a", "b"], "at": "2026-01-30T00:00:00Z", "score": 0.25}}}},'
    )


def main(argument: str) -> None:
    file = GeneratedFile(int(json.loads(argument)["megabytes"]) * 1_000_000)
    counts = ItemCounts()
    started = time.process_time()
    read = sum(1 for _ in items_in(cast(BinaryIO, file), counts))
    cpu = time.process_time() - started - file.cpu_seconds
    assert read == counts.items and not counts.rejected
    print(json.dumps({"items": read, "cpu_seconds": cpu, "peak_bytes": _peak_bytes()}))


def _peak_bytes() -> int:
    """The most memory this process held. Not getrusage's: that starts with what the parent held."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main(sys.argv[1])
