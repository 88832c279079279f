"""The files that the demo puts into the bucket: 25 partitions of one day, 8 of them with files to process."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from local_stack.front_pages.sites import DISALLOWED, domains

COUNTRIES = ("de", "jp", "kr", "us", "vn")
CATEGORIES = ("culture", "news", "shop", "sports", "travel")
# Every third partition of the 25, but for the last, has new files; a system before ours finished the others.
NEW_EVERY = 3
NEW_PARTITIONS = 8
FILES_A_PARTITION = 5
BROKEN = ("kr", "shop")
"""The partition whose third file was cut off in the middle."""
MISBEHAVING = ("redirect-loopback.test", "redirect-metadata.test")


@dataclass(frozen=True)
class DemoFile:
    """One object of the demo; `domains` are those that a reader must find in it."""

    key: str
    body: bytes
    source: str
    domains: frozenset[str]
    is_new: bool
    is_broken: bool = False


def demo_files(day: date) -> list[DemoFile]:
    """All files, the same on every call."""
    return list(_files(day))


def _files(day: date) -> Iterator[DemoFile]:
    places = [(country, category) for country in COUNTRIES for category in CATEGORIES]
    for number, (country, category) in enumerate(places):
        is_new = number % NEW_EVERY == 0 and number < NEW_EVERY * NEW_PARTITIONS
        for index in range(1, FILES_A_PARTITION + 1 if is_new else 2):
            names = _names(number, index)
            body = _body(country, category, index, names)
            is_broken = (country, category) == BROKEN and index == 3
            if is_broken:
                body = body[: len(body) // 2]
            yield DemoFile(
                key=f"raw/country={country}/category={category}/date={day}/raw_{index:04}.json",
                body=body,
                source=f"{country}/{category}",
                domains=frozenset(names),
                is_new=is_new,
                is_broken=is_broken,
            )


def _names(partition: int, index: int) -> list[str]:
    """Four of the invented sites, turning round; some partitions name one that misbehaves too."""
    good = domains()
    first = (partition * 7 + index * 4) % len(good)
    names = [good[(first + step) % len(good)] for step in range(4)]
    if index == 1:
        names.append(MISBEHAVING[partition % len(MISBEHAVING)])
    if index == 2:
        names.append(DISALLOWED)
    return list(dict.fromkeys(names))


def _body(country: str, category: str, index: int, names: list[str]) -> bytes:
    """The three shapes that are accepted, in turn."""
    urls = [f"https://www.{name}/today?from={country}" for name in names]
    shapes = (
        {"country": country, "category": category, "items": [{"url": url, "rank": 1} for url in urls]},
        {"domains": names},
        urls,
    )
    return json.dumps(shapes[index % len(shapes)], ensure_ascii=False).encode()
