"""What the name of an embedding profile says, and whether it says what is done."""

import pytest

from resources.embedding_profile import DEFAULT_PROFILE, EmbeddingProfile, check_profile, read_profile


def test_the_parts_of_a_profile_are_read_also_where_the_model_has_hyphens() -> None:
    assert read_profile(DEFAULT_PROFILE) == EmbeddingProfile(
        "openai", "text-embedding-3-small", 1_536, "cosine", 1
    )


@pytest.mark.parametrize(
    ("name", "model", "dimensions"),
    [
        ("ollama-nomic/embed.v2_x-768-cosine-v12", "nomic/embed.v2_x", 768),
        ("openai-ada-002-1536-cosine-v1", "ada-002", 1_536),
        ("a-b-1-l2-v0", "b", 1),
    ],
)
def test_model_and_dimensions_are_told_apart(name: str, model: str, dimensions: int) -> None:
    profile = read_profile(name)
    assert (profile.model, profile.dimensions) == (model, dimensions)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "openai",
        "openai-text-embedding-3-small-cosine-v1",
        "openai-text-embedding-3-small-1536-v1",
        "openai-text-embedding-3-small-1536-cosine",
        "openai-text-embedding-3-small-1536-cosine-1",
        "openai-text-embedding-3-small-0-cosine-v1",
        "openai-text-embedding-3-small-015-cosine-v1",
        "openai-text-embedding-3-small-123456-cosine-v1",
        "OpenAI-m-1536-cosine-v1",
        "openai-m m-1536-cosine-v1",
        "openai-모델-1536-cosine-v1",
        f"{DEFAULT_PROFILE}\n",
        f" {DEFAULT_PROFILE}",
    ],
)
def test_a_name_of_another_form_is_refused_with_an_example(name: str) -> None:
    with pytest.raises(ValueError, match="such as openai-text-embedding-3-small-1536-cosine-v1"):
        read_profile(name)


def test_a_name_fits_the_column_of_a_hundred_characters() -> None:
    longest = f"openai-{'m' * (100 - len('openai--1536-cosine-v1'))}-1536-cosine-v1"
    assert len(longest) == 100 and read_profile(longest).dimensions == 1_536
    with pytest.raises(ValueError, match="must read"):
        read_profile(longest.replace("openai", "openaix"))


def test_a_profile_that_describes_what_is_done_is_taken() -> None:
    check_profile(DEFAULT_PROFILE, "text-embedding-3-small", 1_536)
    check_profile("openai-m-8-l2-v3", "m", 8, "l2")


@pytest.mark.parametrize(
    ("model", "dimensions", "distance"),
    [
        ("text-embedding-3-large", 1_536, "cosine"),
        ("text-embedding-3-small", 512, "cosine"),
        ("text-embedding-3-small", 1_536, "l2"),
    ],
)
def test_another_model_dimension_or_distance_is_refused_with_both_sides(
    model: str, dimensions: int, distance: str
) -> None:
    with pytest.raises(ValueError, match="says text-embedding-3-small, 1536 dimensions, cosine") as refused:
        check_profile(DEFAULT_PROFILE, model, dimensions, distance)
    assert f"made by {model} with {dimensions} dimensions and compared by {distance}" in str(refused.value)
