"""Jobs of context_tags besides its assets: send again what waits too long, and open the gates by hand."""

import dagster as dg

from assets.context_tags import rescan_store
from orchestration.policies import REPAIR_MAX_SECONDS, job_tags
from resources import gate
from resources.alerts import AlertResource
from resources.chat import ChatResource
from resources.embeddings import EmbeddingResource
from resources.postgres import PostgresResource


@dg.op(description="Sends again what waits too long, and ends as FAILED what was sent three times.")
def send_contexts_again(context: dg.OpExecutionContext, postgres: PostgresResource) -> None:
    with postgres.connect() as connection:
        finalised = rescan_store.finalise(connection)
        again = rescan_store.resend(connection)
    context.log.info(f"{again} contexts were sent again, {finalised} stages ended as FAILED")
    context.add_output_metadata({"sent_again": again, "finalised": finalised})


@dg.op(description="Opens the gates of the embedding model and of the chat model.")
def open_context_gates(
    context: dg.OpExecutionContext,
    postgres: PostgresResource,
    embeddings: EmbeddingResource,
    chat: ChatResource,
    alerts: AlertResource,
) -> None:
    opened = []
    with postgres.connect() as connection:
        for key in (embeddings.gate_key, chat.gate_key):
            if gate.open_(connection, key):
                opened.append(key.model)
                alerts.clear(connection, f"gate:{key.model}")
    context.log.info(f"opened: {', '.join(opened) or 'none was shut'}")
    context.add_output_metadata({"opened": len(opened)})


@dg.job(
    tags=job_tags(REPAIR_MAX_SECONDS),
    description="Plays the application's part where CONTEXT_OWN_STATE is on.",
)
def context_tags_rescan() -> None:
    send_contexts_again()


@dg.job(
    tags=job_tags(REPAIR_MAX_SECONDS),
    description="Opens the gates of both models; what waits is then taken up by the sensor.",
)
def context_tags_resume_suspended() -> None:
    open_context_gates()
