"""What makes two vectors comparable: one name for provider, model, dimensions and distance.

What changes the vector space changes the profile; a prompt does not.
"""

import re
from dataclasses import dataclass

DEFAULT_PROFILE = "openai-text-embedding-3-small-1536-cosine-v1"

_FORM = re.compile(
    r"(?P<provider>[a-z0-9]+)-(?P<model>[A-Za-z0-9._/-]+)-(?P<dimensions>[1-9][0-9]{0,4})"
    r"-(?P<distance>[a-z0-9]+)-v(?P<version>[0-9]{1,4})"
)


@dataclass(frozen=True)
class EmbeddingProfile:
    """The parts of a profile's name."""

    provider: str
    model: str
    dimensions: int
    distance: str
    version: int


def read_profile(name: str) -> EmbeddingProfile:
    """The parts of the name, which has at most 100 characters. Raises ValueError."""
    found = _FORM.fullmatch(name) if len(name) <= 100 else None
    if found is None:
        raise ValueError(f"must read provider-model-dimensions-distance-vN, such as {DEFAULT_PROFILE}")
    return EmbeddingProfile(
        found["provider"],
        found["model"],
        int(found["dimensions"]),
        found["distance"],
        int(found["version"]),
    )


def check_profile(name: str, model: str, dimensions: int, distance: str = "cosine") -> None:
    """Raises ValueError with one sentence where the profile does not describe these."""
    profile = read_profile(name)
    wanted = (model, dimensions, distance)
    if (profile.model, profile.dimensions, profile.distance) != wanted:
        raise ValueError(
            f"says {profile.model}, {profile.dimensions} dimensions, {profile.distance}, but vectors are made"
            f" by {model} with {dimensions} dimensions and compared by {distance}"
        )
