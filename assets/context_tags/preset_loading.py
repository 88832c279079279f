"""Brings `ai.keyword_preset` to what the preset file says; only changed descriptions are embedded."""

from decimal import Decimal

import psycopg

from assets.context_tags import preset_store
from assets.context_tags.preset_file import PresetFile, PresetFileRefused, embedding_text, read_presets
from assets.context_tags.preset_store import PresetChanges
from resources.api_failure import FAIL, SUSPEND, ApiFailure, Verdict
from resources.embeddings import EmbeddingResource
from resources.errors import ServiceNotConfigured, SpendingCapReached
from resources.model_gate import ModelGate
from resources.paid_embeddings import embed_texts

PIPELINE = "context_tags"


def load_presets(
    connection: psycopg.Connection,
    embeddings: EmbeddingResource,
    gate: ModelGate,
    text: str,
    profile: str,
    cap_usd: Decimal | None,
) -> PresetChanges:
    """What changed. Vectors are asked for first and outside any transaction; then all is written at once.

    Raises ServiceNotConfigured for a file that is refused, ApiFailure where no vector can be had: then
    nothing has changed.
    """
    try:
        file = read_presets(text)
        vectors = _vectors(connection, embeddings, gate, file, profile, cap_usd)
        return preset_store.write(connection, file, profile, vectors)
    except PresetFileRefused as refused:
        raise ServiceNotConfigured(f"the preset file is refused, nothing was changed: {refused}") from None


def _vectors(
    connection: psycopg.Connection,
    embeddings: EmbeddingResource,
    gate: ModelGate,
    file: PresetFile,
    profile: str,
    cap_usd: Decimal | None,
) -> dict[int, list[float]]:
    stored = preset_store.stored(connection)
    preset_store.refuse_held_codes(file, stored)  # before anything is paid
    wanted = preset_store.to_embed(file, stored, profile)
    if not wanted:
        return {}
    if shut := gate.pass_():
        raise ApiFailure(Verdict(SUSPEND, shut.reason), "gate_shut", shut.explain())
    try:
        vectors = embed_texts(
            connection, embeddings, PIPELINE, [embedding_text(one) for one in wanted], cap_usd, gate
        )
    except SpendingCapReached as reached:
        gate.asked_nothing()
        gate.shut("BUDGET", str(reached))
        raise ApiFailure(Verdict(SUSPEND, "BUDGET"), "spending_cap", str(reached)) from None
    except ApiFailure as failure:
        if not gate.shut_for(failure) and failure.verdict.effect == FAIL:
            gate.answered()  # it is about these texts alone
        raise
    gate.answered()
    return {preset.id: vector for preset, vector in zip(wanted, vectors, strict=True)}
