"""The demo's texts against the shipped keywords, as the OpenAI stand-in embeds both."""

import numpy as np

from assets.context_tags.models import ContextSettings
from assets.context_tags.preset_file import OWN_FILE, embedding_text, read_presets
from local_stack.context_texts import ALL, FITTING, FITTING_NOTHING
from tests.integration.local_stack.openai_asking import Served


def test_they_are_two_hundred_and_no_two_are_the_same() -> None:
    assert len(set(ALL)) == len(ALL) == 200
    assert len(FITTING_NOTHING) == 20


def test_most_are_near_to_a_keyword_and_those_that_fit_nothing_are_near_to_none(stand_in: Served) -> None:
    def embedded(texts: list[str]) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
        patient = stand_in.client.with_options(timeout=120)  # the encoder is loaded at its first text
        answer = patient.embeddings.create(model="text-embedding-3-small", input=texts)
        return np.array([entry.embedding for entry in answer.data])

    presets = read_presets(OWN_FILE.read_text(encoding="utf-8")).presets
    similarities = embedded(list(ALL)) @ embedded([embedding_text(preset) for preset in presets]).T
    near = similarities.max(axis=1) >= ContextSettings().candidate_floor
    assert near[: len(FITTING)].mean() > 0.9
    assert not near[len(FITTING) :].any()
