"""What starts runs of context_tags: requests that wait, and a preset file that changed."""

from collections.abc import Iterable, Iterator

import dagster as dg
import psycopg

from assets.context_tags import preset_store, request_store
from assets.context_tags.preset_file import PresetFileRefused, read_presets
from assets.context_tags.rules import ContextRules
from orchestration.policies import (
    CONTEXT_MAX_SECONDS,
    LOCK_TAG,
    MAX_RETRIES_TAG,
    PRESETS_MAX_SECONDS,
)
from resources import gate
from resources.chat import ChatResource
from resources.embeddings import EmbeddingResource
from resources.errors import ServiceNotConfigured
from resources.gate import GateKey
from resources.postgres import PostgresResource
from sensors.day_runs import day_runs
from sensors.live_runs import held_locks
from sensors.tick_counter import next_tick

TAGS_JOB = "context_tags"
PRESETS_JOB = "context_tags_presets"


def why_not_to_ask(connection: psycopg.Connection, keys: Iterable[GateKey]) -> str | None:
    """Why a run could ask nothing now: the gate of one of its models is shut and its probe not due."""
    for key in keys:
        shut = gate.read(connection, key)
        if shut is not None and not shut.probe_is_due:
            return f"{key.model}: {shut.explain()}; next probe {shut.next_probe_at:%H:%M %Z}"
    return None


def context_tags_sensors(is_on: bool) -> list[dg.SensorDefinition]:
    """The sensors, running by themselves or stopped until somebody starts them."""
    status = dg.DefaultSensorStatus.RUNNING if is_on else dg.DefaultSensorStatus.STOPPED

    @dg.sensor(
        job_name=TAGS_JOB,
        # Dagster looks every five seconds and passes over what is not quite due yet: 5 would mostly be 10.
        minimum_interval_seconds=4,
        default_status=status,
        description="Starts a run for the days with requests that wait and no run that takes them.",
    )
    def context_requests_waiting(
        context: dg.SensorEvaluationContext,
        postgres: PostgresResource,
        embeddings: EmbeddingResource,
        chat: ChatResource,
        context_rules: ContextRules,
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        with postgres.connect() as connection:
            days = [day for day, _ in request_store.days_waiting(connection)]
            if not days:
                yield dg.SkipReason("no request waits")
                return
            reason = why_not_to_ask(connection, (embeddings.gate_key, chat.gate_key))
            if reason is None and not preset_store.can_judge(connection, context_rules.profile):
                reason = f"no keyword of {context_rules.profile} is stored yet: {PRESETS_JOB} comes first"
        if reason:
            yield dg.SkipReason(reason)
            return
        held = held_locks(context.instance, TAGS_JOB, CONTEXT_MAX_SECONDS)
        runs = day_runs(TAGS_JOB, days, held, next_tick(context))
        yield from runs
        if not runs:
            yield dg.SkipReason("every day with requests that wait has a live run")

    @dg.sensor(
        job_name=PRESETS_JOB,
        minimum_interval_seconds=30,
        default_status=status,
        description="Loads the keywords where the preset file, or the profile, is not what is stored.",
    )
    def preset_file_changed(
        context: dg.SensorEvaluationContext,
        postgres: PostgresResource,
        embeddings: EmbeddingResource,
        context_rules: ContextRules,
    ) -> dg.RunRequest | dg.SkipReason:
        try:
            file = read_presets(context_rules.presets_text())
            with postgres.connect() as connection:
                if not preset_store.differs(connection, file, context_rules.profile):
                    return dg.SkipReason("the stored keywords are those of the file")
                reason = why_not_to_ask(connection, [embeddings.gate_key])
        except PresetFileRefused as refused:
            return dg.SkipReason(f"{context_rules.presets_file or 'presets.yaml'} is refused: {refused}")
        except ServiceNotConfigured as error:
            return dg.SkipReason(str(error))
        if reason:
            return dg.SkipReason(reason)
        if PRESETS_JOB in held_locks(context.instance, PRESETS_JOB, PRESETS_MAX_SECONDS):
            return dg.SkipReason("a run loads them already")
        tags = {LOCK_TAG: PRESETS_JOB, MAX_RETRIES_TAG: "0"}
        return dg.RunRequest(run_key=str(next_tick(context)), tags=tags)

    # With no job: forgetting must not wait for a run's start, nor for requests that wait.
    @dg.sensor(
        minimum_interval_seconds=60,
        default_status=status,
        description="Empties texts whose stages have both come to an end, and those older than a day.",
    )
    def finished_texts_forgotten(postgres: PostgresResource) -> dg.SkipReason:
        with postgres.connect() as connection:
            forgotten = request_store.forget(connection)
        return dg.SkipReason(f"{forgotten} texts forgotten")

    return [context_requests_waiting, preset_file_changed, finished_texts_forgotten]
