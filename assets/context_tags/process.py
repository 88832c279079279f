"""Processes contexts: what may start is started, embedded, judged and stored. Usable without Dagster.

Correctness comes from the statements of the stores alone: a start and a store are conditional on the state
row, so any number of these may run at once, and a cancellation wins wherever it falls. The inbox is not
looked at.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from assets.context_tags import state_store
from assets.context_tags.asking import Asking
from assets.context_tags.candidates import usable_vector
from assets.context_tags.embedding_stage import Embeddings, EmbeddingStage
from assets.context_tags.keyword_stage import Judge, KeywordStage
from assets.context_tags.models import (
    Candidate,
    ContextRequest,
    ContextSettings,
    ContextState,
    Judgement,
    Outcome,
    Preset,
    PresetSnapshot,
    Selection,
    Stage,
    Status,
)
from assets.context_tags.stage_rows import StageRows
from resources.errors import ServiceError

if TYPE_CHECKING:
    from assets.context_tags.stage_rows import Pool

__all__ = [
    "Candidate",
    "ContextRequest",
    "ContextSettings",
    "Embeddings",
    "Judge",
    "Judgement",
    "NoPresets",
    "Outcome",
    "Preset",
    "PresetSnapshot",
    "Selection",
    "UnusablePresets",
    "process_contexts",
]

STARTABLE = frozenset({Status.PENDING, Status.PROCESSING})
"""PROCESSING only once it has expired, which the statement that starts it finds out."""


class NoPresets(ServiceError):
    """There is no preset to judge with, which would look like texts that fit no keyword."""


class UnusablePresets(ServiceError):
    """Presets have a vector that no text's can be compared with; the message names their ids."""


def process_contexts(
    requests: Sequence[ContextRequest],
    *,
    pool: "Pool",
    embeddings: Embeddings,
    judge: Judge,
    presets: PresetSnapshot,
    settings: ContextSettings,
    wait: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """What became of the requests; of two with one id the last counts.

    `wait` (seconds) is called between attempts. Calls that fail never raise: see `Outcome`. Raises NoPresets
    and UnusablePresets before anything is done, psycopg's errors where the database is lost (what was started
    then expires), and FaultyCall where `embeddings` or `judge` raise what is no failure of a call.
    """
    presets = offered(presets)
    _refuse_unusable(presets, settings.dimensions)
    if not presets.presets:
        raise NoPresets(
            "no active keyword preset of the current profile is stored: run keyword_presets first"
        )
    outcome = Outcome()
    asking = Asking(settings, wait, clock)
    embedding = EmbeddingStage(
        StageRows(Stage.EMBEDDING, pool, settings, outcome), embeddings, asking, settings, outcome
    )
    keyword = KeywordStage(
        StageRows(Stage.KEYWORD, pool, settings, outcome), pool, judge, presets, asking, settings, outcome
    )
    last = iter({request.context_id: request for request in requests}.values())
    while some := list(islice(last, settings.claimed_at_once)):
        if asking.is_stopped:
            outcome.left.update(request.context_id for request in some)
            continue
        with pool.connection() as connection:
            states = state_store.states(connection, [request.context_id for request in some])
        to_embed, to_judge = startable(some, states)
        going_on = {request.context_id for request in (*to_embed, *to_judge)}
        outcome.not_started.update(one.context_id for one in some if one.context_id not in going_on)
        vectors = embedding.run(to_embed)
        keyword.run([*to_judge, *(one for one in to_embed if one.context_id in vectors)], vectors)
    return outcome


def offered(presets: PresetSnapshot) -> PresetSnapshot:
    """The snapshot without what is BLOCKED, whoever took it (rule 10)."""
    pairs = zip(presets.presets, presets.vectors, strict=True)
    kept = [(preset, vector) for preset, vector in pairs if preset.visibility != "BLOCKED"]
    return replace(
        presets, presets=tuple(preset for preset, _ in kept), vectors=tuple(vector for _, vector in kept)
    )


def _refuse_unusable(presets: PresetSnapshot, dimensions: int) -> None:
    pairs = zip(presets.presets, presets.vectors, strict=True)
    bad = [preset.id for preset, vector in pairs if usable_vector(vector, dimensions)]
    if bad:
        raise UnusablePresets(
            f"the presets {bad} have no usable vector of {dimensions} dimensions: empty their column "
            "embedding and run keyword_presets"
        )


def startable(
    requests: Sequence[ContextRequest], states: Mapping[int, ContextState]
) -> tuple[list[ContextRequest], list[ContextRequest]]:
    """The pre-check: which may be embedded, and which may be judged as they are (rules 2 and 7).

    It saves calls and guarantees nothing: the start decides.
    """
    to_embed, to_judge = [], []
    for request in requests:
        state = states.get(request.context_id)
        if state is None:
            continue
        if state.embedding in STARTABLE:
            to_embed.append(request)
        elif state.embedding == Status.COMPLETED and state.keyword in STARTABLE:
            to_judge.append(request)
    return to_embed, to_judge
