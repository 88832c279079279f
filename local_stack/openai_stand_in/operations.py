"""The endpoints besides the models' own: the model list, files and batches."""

from local_stack.openai_stand_in import batch_runner
from local_stack.openai_stand_in.batch_lines import input_text
from local_stack.openai_stand_in.calls import Answer, Call, sha256_of
from local_stack.openai_stand_in.errors import bad_request, not_found
from local_stack.openai_stand_in.faults import BatchEffects, Fault
from local_stack.openai_stand_in.models import MODELS
from local_stack.openai_stand_in.state import StandInState

_MODELS_SINCE = 1_700_000_000


async def list_models(state: StandInState, call: Call, fault: Fault | None) -> Answer:
    """All models, or the one in the path."""
    shown = [
        {"id": name, "object": "model", "created": _MODELS_SINCE, "owned_by": "local-stand-in"}
        for name in MODELS
    ]
    if not call.path_id:
        return Answer(200, {"object": "list", "data": shown})
    if call.path_id not in MODELS:
        raise not_found(f"The model '{call.path_id}' does not exist", code="model_not_found")
    return Answer(200, next(one for one in shown if one["id"] == call.path_id))


async def upload_file(state: StandInState, call: Call, fault: Fault | None) -> Answer:
    """The new file."""
    upload = call.upload
    if upload is None:
        raise bad_request("'file' is a required property", param="file")
    return Answer(200, state.files.add(upload.filename, upload.content, upload.purpose))


async def list_files(state: StandInState, call: Call, fault: Fault | None) -> Answer:
    """A page of files, newest first unless asked otherwise."""
    return Answer(200, state.files.page(call.query))


async def get_file(state: StandInState, call: Call, fault: Fault | None) -> Answer:
    """What is known about a file."""
    return Answer(200, state.files.get(call.path_id))


async def file_content(state: StandInState, call: Call, fault: Fault | None) -> Answer:
    """The bytes of a file."""
    return Answer(200, state.files.content(call.path_id))


async def delete_file(state: StandInState, call: Call, fault: Fault | None) -> Answer:
    """The file, deleted."""
    return Answer(200, state.files.delete(call.path_id))


async def create_batch(state: StandInState, call: Call, fault: Fault | None) -> Answer:
    """The new batch, validating; it runs from now on."""
    text = input_text(state, call.body.get("input_file_id"))
    as_seen_by_faults = Call(
        endpoint=call.endpoint,
        body=call.body,
        sha256=sha256_of(text),
        text=text,
    )
    effects = state.faults.take_for_batch(as_seen_by_faults) or BatchEffects()
    batch = state.batches.create(call.body, call.api_key_sha256, effects)
    batch_runner.start(state, batch)
    return Answer(200, batch.answer(), batch_id=batch.id)


async def list_batches(state: StandInState, call: Call, fault: Fault | None) -> Answer:
    """A page of batches, newest first."""
    return Answer(200, state.batches.page(call.query))


async def get_batch(state: StandInState, call: Call, fault: Fault | None) -> Answer:
    """The batch as it is now; a look, where batches come to their end by looks."""
    batch = state.batches.get(call.path_id)
    await batch_runner.look(state, batch)
    return Answer(200, batch.answer(), batch_id=batch.id)


async def cancel_batch(state: StandInState, call: Call, fault: Fault | None) -> Answer:
    """The batch, cancelling."""
    return Answer(200, state.batches.cancel(call.path_id).answer(), batch_id=call.path_id)
