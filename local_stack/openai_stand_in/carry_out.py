"""The one way to an answer of a model, for direct calls and for the lines of batches."""

from collections.abc import Awaitable, Callable

from local_stack.openai_stand_in.calls import Answer, Call
from local_stack.openai_stand_in.chat import complete
from local_stack.openai_stand_in.embeddings import embed
from local_stack.openai_stand_in.errors import ApiError
from local_stack.openai_stand_in.faults import Fault
from local_stack.openai_stand_in.state import StandInState

Operation = Callable[[StandInState, Call, Fault | None], Awaitable[Answer]]

MODEL_ENDPOINTS: dict[str, Operation] = {"chat/completions": complete, "embeddings": embed}


async def carry_out(
    state: StandInState, call: Call, fault: Fault | None, operation: Operation | None = None
) -> Answer:
    """The operation's answer, or the refusal that the fault or the operation asks for.

    Without an operation it is the model endpoint the call names. Nothing is recorded here.
    """
    try:
        error = fault.error() if fault else None
        if error:
            raise error
        return await (operation or MODEL_ENDPOINTS[call.endpoint])(state, call, fault)
    except ApiError as refusal:
        body = (
            refusal.body() if not (fault and fault.status and fault.raw is not None) else fault.raw.encode()
        )
        code = refusal.code or refusal.error_type
        return Answer(refusal.status, body, error_code=code, headers=refusal.headers)
