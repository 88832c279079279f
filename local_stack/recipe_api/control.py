"""The JSON routes under `/_control`, by which tests and people steer the stand-in."""

from collections.abc import Awaitable, Callable
from functools import wraps

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from local_stack.recipe_api.faults import ApiFault
from local_stack.recipe_api.state import ApiState

_Answer = Callable[[Request], Awaitable[Response]]


class _Edit(BaseModel):
    model_config = ConfigDict(extra="forbid")

    seq: str = Field(min_length=1)
    fields: dict[str, str]


class _Quota(BaseModel):
    model_config = ConfigDict(extra="forbid")

    calls: int | None = Field(ge=0, description="calls until INFO-300; null: without limit")


def control_routes(state: ApiState) -> list[Route]:
    """The routes; a request that makes no sense is answered 400 with the reason."""

    async def post_fault(request: Request) -> Response:
        state.faults.add(ApiFault.model_validate_json(await request.body()))
        return JSONResponse(state.faults.listed(), 201)

    async def get_faults(_: Request) -> Response:
        return JSONResponse(state.faults.listed())

    async def delete_faults(_: Request) -> Response:
        state.faults.clear()
        return JSONResponse([])

    async def post_edit(request: Request) -> Response:
        edit = _Edit.model_validate_json(await request.body())
        return JSONResponse(state.edit(edit.seq, edit.fields))

    async def post_quota(request: Request) -> Response:
        state.calls_left = _Quota.model_validate_json(await request.body()).calls
        return JSONResponse({"calls": state.calls_left})

    async def get_requests(_: Request) -> Response:
        return JSONResponse(state.requests())

    async def post_reset(_: Request) -> Response:
        state.reset()
        return JSONResponse({"reset": True})

    routes: list[tuple[str, str, _Answer]] = [
        ("POST", "fault", post_fault),
        ("GET", "fault", get_faults),
        ("DELETE", "fault", delete_faults),
        ("POST", "edit", post_edit),
        ("POST", "quota", post_quota),
        ("GET", "requests", get_requests),
        ("POST", "reset", post_reset),
    ]
    return [
        Route(f"/_control/{name}", _or_reason(answer), methods=[method]) for method, name, answer in routes
    ]


def _or_reason(answer: _Answer) -> _Answer:
    @wraps(answer)
    async def checked(request: Request) -> Response:
        try:
            return await answer(request)
        except ValidationError as error:
            return JSONResponse({"error": error.errors(include_url=False, include_context=False)}, 400)
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400)

    return checked
