"""The assets of context_tags. Partition: the day (UTC) on which a context was requested."""

import time
from collections import Counter
from collections.abc import Iterator
from datetime import date

import dagster as dg
import psycopg

from assets.context_tags import checks, preset_store, prompt, request_store, state_store
from assets.context_tags.models import Outcome, PresetSnapshot
from assets.context_tags.partition_metadata import (
    EMBEDDINGS,
    KEYWORDS,
    ByPartition,
    embeddings_metadata,
    keywords_metadata,
    materialise_before_failing,
    record,
)
from assets.context_tags.preset_loading import load_presets
from assets.context_tags.rules import ContextRules
from orchestration.failures import failures_by_owner
from orchestration.partitions import context_days
from orchestration.policies import CONTEXT_SLICE_SECONDS, ONE_RUN_PER_RANGE, OPENAI_POOL
from resources.alerts import AlertResource
from resources.api_failure import ApiFailure
from resources.chat import ChatResource
from resources.embeddings import EmbeddingResource
from resources.errors import ServiceNotConfigured
from resources.gate import REMEDIES
from resources.model_gate import ModelGate
from resources.postgres import PostgresResource
from resources.spending import Usage

GROUP = "context_tags"
OWNERS = ["team:content"]
MOST_CONNECTIONS = 4


@dg.asset(group_name=GROUP, owners=OWNERS, kinds={"postgres", "openai"}, pool=OPENAI_POOL, code_version="1")
def keyword_presets(
    context: dg.AssetExecutionContext,
    postgres: PostgresResource,
    embeddings: EmbeddingResource,
    alerts: AlertResource,
    context_rules: ContextRules,
) -> dg.MaterializeResult:
    """The fixed set of keywords with their vectors (ai.keyword_preset), as the preset file states it.

    A keyword is embedded again only where its description or examples changed; one that was dropped becomes
    inactive.
    """
    rules = context_rules
    with failures_by_owner(context), postgres.connect() as connection:
        _check_tables(connection, rules.own_state)
        gate = ModelGate(connection, embeddings.gate_key, alerts, rules.gate_probe_minutes)
        changes = load_presets(
            connection, embeddings, gate, rules.presets_text(), rules.profile, rules.cap_usd
        )
        stored = preset_store.snapshot(connection, rules.profile)
    return dg.MaterializeResult(
        metadata={
            "items_done": len(stored.presets),
            "version": stored.version,
            "pass_added": changes.added,
            "pass_changed": changes.changed,
            "pass_deactivated": changes.deactivated,
            "pass_embedded": changes.embedded,
        }
    )


@dg.multi_asset(
    name="embed_and_tag_contexts",
    specs=[
        dg.AssetSpec(
            EMBEDDINGS,
            description="A vector of every requested context (ai.context_embedding), never of a deleted one.",
            group_name=GROUP,
            owners=OWNERS,
            kinds={"postgres", "openai"},
            code_version="1",
            deps=[keyword_presets],
        ),
        dg.AssetSpec(
            KEYWORDS,
            description="The keywords that fit each context (ai.context_keyword), maybe none, and what none "
            "of them covers (ai.context_keyword_analysis).",
            group_name=GROUP,
            owners=OWNERS,
            kinds={"postgres", "openai"},
            code_version=prompt.VERSION,
            deps=[EMBEDDINGS],
        ),
    ],
    check_specs=[checks.OLD_TEXTS, checks.FAILED],
    partitions_def=context_days,
    backfill_policy=ONE_RUN_PER_RANGE,
    pool=OPENAI_POOL,
)
def context_tags(
    context: dg.AssetExecutionContext,
    postgres: PostgresResource,
    embeddings: EmbeddingResource,
    chat: ChatResource,
    alerts: AlertResource,
    context_rules: ContextRules,
) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
    """Embeds and tags what waits in the inbox, and on the running day goes on while more arrives.

    Both stages are one step, so that a text does not wait for others between them; each is stored by itself.
    """
    from assets.context_tags.inbox_run import InboxRun
    from assets.context_tags.paid_calls import PaidEmbeddings, PaidJudge

    rules, started = context_rules, time.monotonic()
    days = [date.fromisoformat(key) for key in context.partition_keys]
    with (
        failures_by_owner(context),
        postgres.connect() as connection,
        postgres.pool(MOST_CONNECTIONS) as pool,
    ):
        _check_tables(connection, rules.own_state)
        presets = _presets(connection, rules.profile)  # before a probe is taken
        gates = _pass_gates(connection, (embeddings, chat), alerts, rules)
        embed = PaidEmbeddings(connection, embeddings, gates[0], rules.cap_usd)
        judge = PaidJudge(connection, chat, gates[1], rules.cap_usd)
        run = InboxRun(
            pool=pool,
            embeddings=embed,
            judge=judge,
            presets=presets,
            settings=rules.processing,
            days=days,
            linger_seconds=rules.linger_seconds if request_store.today(connection) in days else 0,
            most_seconds=CONTEXT_SLICE_SECONDS,
        )
        try:
            outcome = run.run()
        finally:
            for unused in gates:  # a probe that found nothing to ask is due again at once
                unused.asked_nothing()
        told = _told(connection, days, outcome, (embed.usage, judge.usage), time.monotonic() - started)
        found = [
            checks.old_texts(request_store.overdue_texts(connection)),
            checks.failed(dict(Counter(outcome.failed.values()))),
        ]
    if problem := _problem(outcome):
        materialise_before_failing(context, told)
        raise dg.Failure(description=problem, allow_retries=False)
    record(context, told)
    yield dg.MaterializeResult(asset_key=EMBEDDINGS)
    yield dg.MaterializeResult(asset_key=KEYWORDS, check_results=found)


def _check_tables(connection: psycopg.Connection, own_state: bool) -> None:
    if missing := state_store.missing_columns(connection, own_state):
        raise ServiceNotConfigured(
            f"the schema ai lacks what context_tags uses: {', '.join(missing)}; "
            "assets/context_tags/sql/grants.sql lists the columns and the grants"
        )


def _presets(connection: psycopg.Connection, profile: str) -> PresetSnapshot:
    presets = preset_store.snapshot(connection, profile)
    if not presets.presets:
        raise ServiceNotConfigured(
            f"no keyword of the profile {profile} is stored: run the job context_tags_presets first"
        )
    return presets


def _pass_gates(
    connection: psycopg.Connection,
    models: tuple[EmbeddingResource, ChatResource],
    alerts: AlertResource,
    rules: ContextRules,
) -> list[ModelGate]:
    """The open gates of both models, or those whose probe this run holds. Raises dg.Failure otherwise."""
    gates = [ModelGate(connection, model.gate_key, alerts, rules.gate_probe_minutes) for model in models]
    for gate in gates:
        if shut := gate.pass_():
            for other in gates:
                other.asked_nothing()
            raise dg.Failure(description=shut.explain(), allow_retries=False)
    return gates


def _told(
    connection: psycopg.Connection,
    days: list[date],
    outcome: Outcome,
    usages: tuple[Usage, Usage],
    seconds: float,
) -> ByPartition:
    counts = request_store.counts_by_day(connection, days)
    return {
        day.isoformat(): {
            EMBEDDINGS: embeddings_metadata(counts[day], outcome, usages[0], seconds),
            KEYWORDS: keywords_metadata(counts[day], outcome, usages[1], seconds),
        }
        for day in days
    }


def _problem(outcome: Outcome) -> str | None:
    """Why the run fails: an error that hits everyone, or nothing was settled of what was started."""
    if isinstance(failure := outcome.stopped_by, ApiFailure):
        remedy = REMEDIES.get(failure.verdict.reason or "")
        return f"{failure}: {remedy}" if remedy else str(failure)
    if outcome.stopped_by is not None:
        return type(outcome.stopped_by).__name__
    if outcome.started and not outcome.settled:
        reasons = ", ".join(sorted(set(outcome.put_off.values()))) or "no reason"
        return f"the run started {outcome.started} stages and settled none ({reasons})"
    return None
