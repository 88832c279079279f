"""Posts contexts to a served door at a fixed rate: `python -m benchmarks.door_load '{"port": 8787, …}'`.

In a process of its own, so that it does not take the door's turns. Open loop: a request is due at its time
whether or not the ones before were answered, and its latency counts from that time, so that a door that
stalls is charged for all who came meanwhile. Prints one JSON line.
"""

import asyncio
import gc
import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

_SENTENCE = "친구와 함께 간 골목의 작은 카페는 조용하고 아늑해서 오래 이야기하기 좋았다. "


@dataclass(frozen=True)
class Load:
    """What to post; context ids count up from `first_context`. The first `warm_up` are not measured."""

    port: int
    token: str
    host: str = "127.0.0.1"
    rate: float = 200
    seconds: float = 20
    warm_up: int = 200
    first_context: int = 1
    characters: int = 400
    most_connections: int = 64


@dataclass(frozen=True)
class Latencies:
    """Milliseconds from the time a request was due to the end of its answer; answers by status."""

    requests: int
    statuses: dict[str, int]
    p50_ms: float
    p95_ms: float
    p99_ms: float
    most_ms: float
    connections: int


class Connections:
    """Connections that are kept; the one used last is used first, as a client's pool does."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._room = asyncio.Semaphore(load.most_connections)
        self.opened = 0

    async def status_of(self, request: bytes) -> str:
        """Sends the request; the answer's status once it is read whole, or why there is none."""
        async with self._room:
            try:
                reader, writer = self._take() or await self._open()
                writer.write(request)
                status = await _answered(reader)
            except (OSError, EOFError) as error:
                return type(error).__name__
            self._idle.append((reader, writer))
            return status

    def _take(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """One that the door has not closed meanwhile."""
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof():
                return reader, writer
            writer.close()
        return None

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.opened += 1
        return await asyncio.open_connection(self._load.host, self._load.port)

    def close(self) -> None:
        for _, writer in self._idle:
            writer.close()


async def _answered(reader: asyncio.StreamReader) -> str:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    for line in head.split("\r\n"):
        if line.startswith("content-length:"):
            await reader.readexactly(int(line.partition(":")[2]))
    return head[9:12]


def _request(load: Load, number: int) -> bytes:
    context_id = load.first_context + number
    text = f"{context_id}: {_SENTENCE * ceil(load.characters / len(_SENTENCE))}"[: load.characters]
    posted = {
        "contextId": context_id,
        "userId": 1 + context_id % 10_000,
        "recordId": context_id,
        "text": text,
        "placeMeta": {"name": "골목 카페", "category": "카페"},
    }
    body = json.dumps(posted, ensure_ascii=False).encode()
    head = (
        "POST /internal/v1/context/process HTTP/1.1\r\n"
        f"Host: {load.host}:{load.port}\r\n"
        f"Authorization: Bearer {load.token}\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def post(load: Load) -> Latencies:
    """Posts all and waits for the last answer."""
    connections = Connections(load)
    statuses: Counter[str] = Counter()
    latencies: list[float] = []

    async def one(number: int, due: float, request: bytes) -> None:
        status = await connections.status_of(request)
        if number >= load.warm_up:
            latencies.append(time.perf_counter() - due)
            statuses[status] += 1

    requests = [_request(load, number) for number in range(load.warm_up + round(load.rate * load.seconds))]
    gc.freeze()
    started = time.perf_counter() + 0.1
    async with asyncio.TaskGroup() as group:
        for number, request in enumerate(requests):
            due = started + number / load.rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            group.create_task(one(number, due, request))
    connections.close()
    latencies.sort()
    p50, p95, p99, most = (_percentile_ms(latencies, share) for share in (0.5, 0.95, 0.99, 1))
    return Latencies(len(latencies), dict(statuses), p50, p95, p99, most, connections.opened)


def _percentile_ms(ordered: list[float], share: float) -> float:
    return round(ordered[ceil(share * len(ordered)) - 1] * 1000, 3)


def main(argument: str) -> None:
    arguments: dict[str, Any] = json.loads(argument)
    print(json.dumps(asdict(asyncio.run(post(Load(**arguments))))))


if __name__ == "__main__":
    main(sys.argv[1])
