"""Misbehaviour on request: that of any site, and what only this API can get wrong."""

from typing import Any

from pydantic import Field, field_validator
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from local_stack.naver_site.faults import Fault, misbehave
from local_stack.recipe_api.answers import MESSAGES, Shape, report


class ApiFault(Fault):
    """A fault of any site (status, hang, truncate_bytes, body, times, …) that meets every path by itself."""

    path: str = ""
    code: str | None = Field(default=None, description="answered in place of the page")
    shape: Shape = Field(default="wrapped", description="the shape that the code comes in")
    rows: int | None = Field(default=None, ge=0, description="a page is cut to so many rows")
    encoding: str | None = Field(default=None, description="of the body, whatever the header says")

    @field_validator("code")
    @classmethod
    def _is_known(cls, code: str | None) -> str | None:
        if code is not None and code not in MESSAGES:
            raise ValueError(f"no code {code!r}")
        return code

    @field_validator("encoding")
    @classmethod
    def _is_an_encoding(cls, encoding: str | None) -> str | None:
        try:
            "".encode(encoding or "utf-8")
        except LookupError as error:
            raise ValueError(f"no encoding {encoding!r}") from error
        return encoding


async def misbehave_as(fault: ApiFault, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers one request as the fault says; its delay has passed already."""

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        if fault.code is None:
            await app({**scope, "most_rows": fault.rows}, receive, send)
        else:
            body, content_type = report(fault.code, fault.shape)
            await Response(body, headers={"content-type": content_type})(scope, receive, send)

    async def re_encoding(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Any) -> None:
            if fault.encoding and message["type"] == "http.response.body":
                text = message["body"].decode()
                message = {**message, "body": text.encode(fault.encoding, "replace")}
            await send(message)

        await answering(scope, receive, sending)

    await misbehave(fault, re_encoding, scope, receive, send)
