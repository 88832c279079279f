"""The control routes under /_control: faults, ledger, latency, batches, reset. JSON in and out.

`batches/pace` takes `{"seconds": s}` (from creation to end), `{"looks": n}` (ended with the nth look) or `{}`
(only on command); `batches/advance` is the command: `{"to": "in_progress" | "finalizing" | "end", "id": …}`,
by default to the end, and all.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from local_stack.openai_stand_in import batch_runner
from local_stack.openai_stand_in.batch_pace import Pace
from local_stack.openai_stand_in.faults import Fault
from local_stack.openai_stand_in.state import StandInState


class _Latency(BaseModel):
    model_config = ConfigDict(extra="forbid")
    seconds: float = Field(ge=0)


class _Reset(BaseModel):
    model_config = ConfigDict(extra="forbid")
    ledger: bool = False
    batches: bool = False


class _Pace(BaseModel):
    model_config = ConfigDict(extra="forbid")
    seconds: float | None = Field(default=None, ge=0)
    looks: int | None = Field(default=None, ge=1)


class _Advance(BaseModel):
    model_config = ConfigDict(extra="forbid")
    to: Literal["in_progress", "finalizing", "end"] = "end"
    id: str | None = None


def control_routes(state: StandInState) -> list[Route]:
    """The routes; a malformed body is answered with 400 and the reasons."""

    async def health(request: Request) -> Any:
        return {"status": "ok"}

    async def add_fault(request: Request) -> Any:
        return {"id": state.faults.add(Fault.model_validate(await _body(request)))}

    async def faults(request: Request) -> Any:
        if request.method == "DELETE":
            state.faults.clear()
        return {"faults": state.faults.listed()}

    async def ledger(request: Request) -> Any:
        since = int(request.query_params.get("since", "0"))
        return {"entries": list(state.ledger.entries(since))}

    async def totals(request: Request) -> Any:
        return state.ledger.totals()

    async def latency(request: Request) -> Any:
        state.latency_seconds = _Latency.model_validate(await _body(request)).seconds
        return {"seconds": state.latency_seconds}

    async def pace(request: Request) -> Any:
        wanted = _Pace.model_validate(await _body(request))
        if None not in (wanted.seconds, wanted.looks):
            raise ValueError("a pace is by seconds or by looks, not both")
        state.set_pace(Pace(wanted.seconds, wanted.looks))
        return wanted.model_dump()

    async def advance(request: Request) -> Any:
        wanted = _Advance.model_validate(await _body(request))
        return {"finished": await batch_runner.advance(state, wanted.to, wanted.id)}

    async def reset(request: Request) -> Any:
        wanted = _Reset.model_validate(await _body(request))
        state.reset(ledger=wanted.ledger, batches=wanted.batches)
        more = [name for name in ("ledger", "batches") if getattr(wanted, name)]
        return {"reset": ["faults", "latency", "pace", *more]}

    routes = [
        ("GET", "health", health),
        ("POST", "faults", add_fault),
        ("GET", "faults", faults),
        ("DELETE", "faults", faults),
        ("GET", "ledger", ledger),
        ("GET", "ledger/totals", totals),
        ("POST", "latency", latency),
        ("POST", "batches/pace", pace),
        ("POST", "batches/advance", advance),
        ("POST", "reset", reset),
    ]
    return [Route(f"/_control/{path}", _answering(found), methods=[method]) for method, path, found in routes]


async def _body(request: Request) -> Any:
    body = await request.body()
    return json.loads(body) if body.strip() else {}


def _answering(found: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
    async def answered(request: Request) -> Response:
        try:
            return JSONResponse(await found(request))
        except ValidationError as error:
            return JSONResponse({"error": json.loads(error.json(include_url=False))}, status_code=400)
        except ValueError as error:
            return JSONResponse({"error": str(error)}, status_code=400)

    return answered
