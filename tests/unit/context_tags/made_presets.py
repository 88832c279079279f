"""Presets and candidates for tests."""

from collections.abc import Sequence

from assets.context_tags.models import Candidate, Preset, PresetSnapshot


def preset(id_: int = 101, **changed: object) -> Preset:
    values: dict[str, object] = {
        "id": id_,
        "code": f"CODE_{id_}",
        "display_name": f"이름 {id_}",
        "category": "COMPANION",
        "description": f"{id_}번에 대한 설명입니다.",
        "examples": ("첫째 예", "둘째 예"),
    }
    return Preset(**{**values, **changed})  # type: ignore[arg-type]


def candidate(id_: int = 101, similarity: float = 0.5, **changed: object) -> Candidate:
    return Candidate(preset(id_, **changed), similarity)


def snapshot(vectors: dict[int, Sequence[float]]) -> PresetSnapshot:
    """A snapshot of presets by id, in this order."""
    return PresetSnapshot(1, "profile", tuple(preset(id_) for id_ in vectors), tuple(vectors.values()))
