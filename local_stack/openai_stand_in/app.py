"""The web application: each call is read, checked, carried out, recorded, and only then answered."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from local_stack.openai_stand_in import batch_runner, operations
from local_stack.openai_stand_in.calls import Answer, Call, Json, make_call, sha256_of
from local_stack.openai_stand_in.carry_out import MODEL_ENDPOINTS, Operation, carry_out
from local_stack.openai_stand_in.control import control_routes
from local_stack.openai_stand_in.errors import ApiError, bad_request
from local_stack.openai_stand_in.multipart import read_upload
from local_stack.openai_stand_in.state import StandInState

# (method, path under /v1, name in the ledger and in faults, operation)
_ENDPOINTS: list[tuple[str, str, str, Operation]] = [
    ("POST", "/chat/completions", "chat/completions", MODEL_ENDPOINTS["chat/completions"]),
    ("POST", "/embeddings", "embeddings", MODEL_ENDPOINTS["embeddings"]),
    ("GET", "/models", "models", operations.list_models),
    ("GET", "/models/{id}", "models", operations.list_models),
    ("POST", "/files", "files/upload", operations.upload_file),
    ("GET", "/files", "files/list", operations.list_files),
    ("GET", "/files/{id}", "files/get", operations.get_file),
    ("GET", "/files/{id}/content", "files/content", operations.file_content),
    ("DELETE", "/files/{id}", "files/delete", operations.delete_file),
    ("POST", "/batches", "batches/create", operations.create_batch),
    ("GET", "/batches", "batches/list", operations.list_batches),
    ("GET", "/batches/{id}", "batches/get", operations.get_batch),
    ("POST", "/batches/{id}/cancel", "batches/cancel", operations.cancel_batch),
]
_LEFT_WAITING = 499


class _StandIn(Starlette):
    """Starlette that lets a route close its connection without an answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # ASGI has no message for it; uvicorn's `send` is bound to an object that knows the transport.
        scope["transport"] = getattr(getattr(send, "__self__", None), "transport", None)
        await super().__call__(scope, receive, send)


def create_app(state: StandInState) -> Starlette:
    """The application over a state, for uvicorn; batches left open by an earlier process go on."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        for batch in state.batches.open_batches():
            batch_runner.start(state, batch)
        yield
        tasks = list(state.batch_tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    v1 = [
        Route(f"/v1{path}", _route(state, name, operation), methods=[method])
        for method, path, name, operation in _ENDPOINTS
    ]
    unknown = Route("/v1/{path:path}", _unknown_url, methods=["GET", "POST", "DELETE", "PUT", "PATCH"])
    return _StandIn(routes=[*v1, unknown, *control_routes(state)], lifespan=lifespan)


def _route(
    state: StandInState, endpoint: str, operation: Operation
) -> Callable[[Request], Awaitable[Response]]:
    async def answered(request: Request) -> Response:
        try:
            call = await _read_call(request, endpoint)
            _authenticate(request)
        except ApiError as error:
            return _refused_unread(state, request, endpoint, error)
        fault = state.faults.take(call)
        if fault and fault.hang is True:
            state.ledger.record(call, Answer(_LEFT_WAITING, {}, error_code="hang"))
            return await _until_client_leaves(request)
        latency = state.latency_seconds if endpoint in MODEL_ENDPOINTS else 0.0
        delay = latency + (fault.delay_seconds if fault else 0.0)
        if delay:
            await asyncio.sleep(delay)
        if fault and fault.drop == "before":
            return _drop(request)
        answer = await carry_out(state, call, fault, operation)
        state.ledger.record(call, answer)
        if fault and fault.hang == "after":
            return await _until_client_leaves(request)
        if fault and fault.drop == "after":
            return _drop(request)
        return _response(call, answer)

    return answered


async def _read_call(request: Request, endpoint: str) -> Call:
    rest: dict[str, Any] = {
        "path_id": request.path_params.get("id", ""),
        "query": dict(request.query_params),
        "api_key_sha256": _key_sha256(request),
    }
    if request.method != "POST" or endpoint == "batches/cancel":
        return make_call(endpoint, dict(request.query_params), **rest)
    body = await request.body()
    if endpoint == "files/upload":
        upload = read_upload(request.headers.get("content-type", ""), body)
        described = {"filename": upload.filename, "purpose": upload.purpose, "bytes": len(upload.content)}
        return replace(make_call(endpoint, described, **rest), upload=upload)
    return make_call(endpoint, _parsed(body), **rest)


def _parsed(body: bytes) -> Json:
    try:
        parsed = json.loads(body)
        # A lone surrogate is valid as an escape, yet no text: the real API refuses it too.
        json.dumps(parsed, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise bad_request("We could not parse the JSON body of your request.")
    return parsed


def _bearer(request: Request) -> str:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def _key_sha256(request: Request) -> str | None:
    key = _bearer(request)
    return sha256_of(key)[:12] if key else None


def _authenticate(request: Request) -> None:
    key = _bearer(request)
    if not key:
        message = "You didn't provide an API key in an Authorization header (Bearer YOUR_KEY)."
        raise ApiError(401, message, code="invalid_api_key")
    if key.startswith("sk-invalid"):
        raise ApiError(401, "Incorrect API key provided.", code="invalid_api_key")


def _refused_unread(state: StandInState, request: Request, endpoint: str, error: ApiError) -> Response:
    call = make_call(endpoint, {}, api_key_sha256=_key_sha256(request))
    answer = Answer(error.status, error.body(), error_code=error.code or error.error_type)
    state.ledger.record(call, answer)
    return _response(call, answer)


def _response(call: Call, answer: Answer) -> Response:
    headers = {"x-request-id": f"req_{call.sha256[:32]}", **answer.headers}
    if isinstance(answer.body, bytes):
        return Response(answer.body, answer.status, headers, media_type="application/octet-stream")
    content = json.dumps(answer.body, ensure_ascii=False, separators=(",", ":"))
    return Response(content, answer.status, headers, media_type="application/json")


async def _until_client_leaves(request: Request) -> Response:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    return Response(status_code=_LEFT_WAITING)


def _drop(request: Request) -> Response:
    transport = request.scope["transport"]
    if transport is None:
        raise RuntimeError("a connection can only be dropped under uvicorn")
    transport.abort()
    return Response(status_code=_LEFT_WAITING)


async def _unknown_url(request: Request) -> Response:
    error = ApiError(404, f"Invalid URL ({request.method} {request.url.path})")
    return Response(json.dumps(error.body()), 404, media_type="application/json")
