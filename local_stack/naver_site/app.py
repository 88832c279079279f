"""The site as a Starlette app, and a server for it on loopback."""

import asyncio
import socket
from datetime import date, datetime
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from local_stack.naver_site.article_page import current_page, notice_page, unreadable_page
from local_stack.naver_site.articles import SECTION_OF_SID2, Article, Kind
from local_stack.naver_site.control import control_routes
from local_stack.naver_site.days import EARLIEST_YEAR
from local_stack.naver_site.faults import misbehave
from local_stack.naver_site.list_page import first_page, fragment
from local_stack.naver_site.old_pages import old_2020_page, old_end_page
from local_stack.naver_site.page_frame import NO_CHARSET, UTF8
from local_stack.naver_site.state import SiteState


def create_app(state: SiteState) -> Starlette:
    """The site over a state that the caller may change between requests."""

    async def robots(_: Request) -> Response:
        return PlainTextResponse(state.robots_text, state.robots_status)

    async def section_page(request: Request) -> Response:
        section, day = SECTION_OF_SID2.get(request.path_params["sid2"]), _day_asked(request, state)
        if section is None or day is None:
            return _html(notice_page("페이지를 찾을 수 없습니다."), 404)
        listed = state.listed(section, day)
        return _html(first_page(_base(request), section, day, listed, state.aside(section, day)))

    async def more(request: Request) -> Response:
        asked = request.query_params
        section, day = SECTION_OF_SID2.get(asked.get("sid2", "")), _day_asked(request, state)
        if section is None or day is None or not asked.get("pageNo", "1").isdecimal():
            return JSONResponse({"error": "no such list"}, 404)
        page_number = int(asked.get("pageNo", "1"))
        return JSONResponse(
            fragment(section, day, state.listed(section, day), asked.get("next", ""), page_number)
        )

    async def article(request: Request) -> Response:
        ids = request.path_params or request.query_params
        oid, aid = ids.get("oid") or ids.get("office_id"), ids.get("aid") or ids.get("article_id")
        found = state.find(oid or "", aid or "")
        if found is None:
            return _html(notice_page("존재하지 않는 기사입니다."), 404)
        return article_response(found, _base(request))

    routes = [
        Route("/robots.txt", robots),
        Route("/breakingnews/section/101/{sid2}", section_page),
        Route("/section/template/SECTION_ARTICLE_LIST_FOR_LATEST", more),
        Route("/mnews/article/{oid}/{aid}", article),
        Route("/article/{oid}/{aid}", article),
        Route("/main/read.naver", article),
        Route("/main/news_read.naver", article),
        *control_routes(state),
    ]
    return Starlette(routes=routes, middleware=[Middleware(_LogAndFaults, state=state)])


def article_response(article: Article, base: str) -> Response:
    """What the address of an article answers, by its kind."""
    match article.kind:
        case Kind.GONE_404:
            return _html(notice_page("페이지를 찾을 수 없습니다."), 404)
        case Kind.GONE_NOTICE:
            return _html(notice_page(article.notice))
        case Kind.MOVED_SPORTS:
            return RedirectResponse(
                f"https://sports.news.naver.com/news?oid={article.oid}&aid={article.aid}", 302
            )
        case Kind.UNREADABLE:
            return _html(unreadable_page(article, base))
        case Kind.OLD_END_LAYOUT:
            return _html(old_end_page(article, base))
        case Kind.OLD_2020_LAYOUT:
            return _html(old_2020_page(article, base), content_type=NO_CHARSET)
        case Kind.CP949:
            # As such pages do: what the code page lacks is written as a character reference.
            encoded = current_page(article, base).encode("cp949", "xmlcharrefreplace")
            return Response(encoded, headers={"content-type": NO_CHARSET})
        case _:
            return _html(current_page(article, base))


def site_server(state: SiteState, port: int) -> tuple[uvicorn.Server, socket.socket]:
    """A quiet server and its bound socket on 127.0.0.1, to be run as `server.run(sockets=[bound])`.

    Port 0 takes a free one. Raises OSError at once where the port is taken.
    """
    bound = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(
        create_app(state),
        http=_AbortableProtocol,
        lifespan="off",
        log_level="critical",
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config), bound


class _AbortableProtocol(H11Protocol):
    """Hands its transport to the app, since ASGI has no way to drop a connection without an answer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}


class _LogAndFaults:
    """Notes every request outside `/_control` and lets a fault answer in the site's place."""

    def __init__(self, app: ASGIApp, state: SiteState) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/_control/"):
            await self._app(scope, receive, send)
            return
        path = scope["path"] + (
            f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
        )
        agent = dict(scope["headers"]).get(b"user-agent", b"").decode("latin-1")
        seen = self._state.note_request(scope["method"], path, agent)
        fault = self._state.faults.take(path)
        if delay := self._state.delay_seconds + (fault.delay_seconds if fault else 0):
            await asyncio.sleep(delay)

        async def noting_status(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen.status = message["status"]
            await send(message)

        if fault is None:
            await self._app(scope, receive, noting_status)
        else:
            await misbehave(fault, self._app, scope, receive, noting_status)


def _html(text: str, status: int = 200, content_type: str = UTF8) -> Response:
    return Response(text.encode(), status, headers={"content-type": content_type})


def _base(request: Request) -> str:
    return str(request.base_url).rstrip("/")


def _day_asked(request: Request, state: SiteState) -> date | None:
    """The day of `date=YYYYMMDD`, today without it, None where it is no day the site has."""
    asked: Any = request.query_params.get("date")
    if not asked:
        return state.today()
    try:
        day = datetime.strptime(asked, "%Y%m%d").date()
    except ValueError:
        return None
    return day if day.year >= EARLIEST_YEAR else None
