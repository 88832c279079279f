"""Which presets are near enough to a text to be judged: the rows of one small matrix, in memory.

Imports numpy, so whoever is loaded with the definitions imports this module inside a function.
"""

from collections.abc import Sequence

import numpy as np

from assets.context_tags.models import Candidate, PresetSnapshot

# Sums over equal rows may differ in their last bits, by where a row lies: less than this is no difference.
DECIMALS = 9


class PresetMatrix:
    """The vectors of a snapshot, at length 1. Raises ValueError with the ids of those that are unusable."""

    def __init__(self, snapshot: PresetSnapshot) -> None:
        self._presets = snapshot.presets
        self._dimensions = len(snapshot.vectors[0]) if snapshot.vectors else 0
        pairs = zip(snapshot.presets, snapshot.vectors, strict=True)
        bad = [preset.id for preset, vector in pairs if usable_vector(vector, self._dimensions)]
        if bad:
            raise ValueError(f"presets {bad} have no usable vector: embed them again")
        rows = np.asarray(snapshot.vectors, dtype=np.float64).reshape(len(self._presets), self._dimensions)
        self._rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def candidates(self, vector: Sequence[float], most: int, floor: float) -> list[Candidate]:
        """At most `most` presets, nearest to a text's vector by cosine and not below `floor`; ties by id.

        Raises ValueError where the vector is not usable: nothing near is not the same as nothing to compare.
        """
        if not self._presets:
            return []
        reason = usable_vector(vector, self._dimensions)
        if reason:
            raise ValueError(f"the vector cannot be compared with the presets: {reason}")
        text = np.asarray(vector, dtype=np.float64)
        similarities = np.round(self._rows @ (text / np.linalg.norm(text)), DECIMALS).tolist()
        near = [
            Candidate(preset, similarity)
            for preset, similarity in zip(self._presets, similarities, strict=True)
            if similarity >= floor
        ]
        return sorted(near, key=lambda one: (-one.similarity, one.preset.id))[:most]


def usable_vector(vector: Sequence[float], dimensions: int) -> str | None:
    """Why the vector cannot be stored and compared (`dimension`, `not_a_number`, `zero`), None if it can.

    Judged as it will be stored, in 4-byte floats: 1e39 is infinite there, and 1e-50 is zero.
    """
    try:
        numbers = np.asarray(vector)
    except (ValueError, TypeError):  # Lists of unequal length inside it.
        return "not_a_number"
    if numbers.shape != (dimensions,):
        return "dimension"
    if numbers.dtype.kind not in "fiu":
        return "not_a_number"
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        stored = numbers.astype(np.float32)
    if not np.isfinite(stored).all():
        return "not_a_number"
    return None if stored.any() else "zero"
