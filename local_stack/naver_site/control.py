"""The JSON routes under `/_control`, by which tests and people steer the site and ask what is right."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, date, datetime, time
from functools import wraps
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from local_stack.naver_site.articles import SECTIONS, SEOUL, Article, Kind
from local_stack.naver_site.days import EARLIEST_YEAR, as_shown, write_article
from local_stack.naver_site.faults import Fault
from local_stack.naver_site.state import ROBOTS_ALLOWING_ALL, SiteState

_LAST_MOMENT = datetime.max.replace(tzinfo=UTC)


class _Clock(BaseModel):
    now: AwareDatetime | None


class _Robots(BaseModel):
    text: str = ROBOTS_ALLOWING_ALL
    status: int = 200


class PostedArticle(BaseModel):
    """An article to add (no ids, or ids that are free) or to change (the ids of one that exists).

    Only the fields that are given change; of a new article the others are written for it. `deleted` takes
    it out of the lists and leaves 404.
    """

    model_config = ConfigDict(extra="forbid")

    date: date
    section: str | None = None
    oid: str | None = Field(default=None, pattern=r"^\d{3}$")
    aid: str | None = Field(default=None, pattern=r"^\d{10}$")
    sections: list[str] | None = None
    kind: Kind | None = None
    press: str | None = None
    title: str | None = None
    paragraphs: list[str] | None = None
    listed_at: AwareDatetime | None = None
    published_at: AwareDatetime | None = None
    modified_at: AwareDatetime | None = None
    reporters: list[str] | None = None
    has_thumbnail: bool | None = None
    duplicate_group: str | None = None
    notice: str | None = None
    deleted: bool = False

    @field_validator("section", "sections")
    @classmethod
    def _sections_exist(cls, given: str | list[str] | None) -> str | list[str] | None:
        for section in [given] if isinstance(given, str) else given or []:
            if section not in SECTIONS:
                raise ValueError(f"no section {section!r}")
        return given


def publish(state: SiteState, posted: PostedArticle) -> Article:
    """The article as it now stands. Raises ValueError for an early year and a new one without a section."""
    _site_has(posted.date)
    known = next(
        (one for one in state.articles(posted.date) if (one.oid, one.aid) == (posted.oid, posted.aid)), None
    )
    article = known or _new_article(state, posted)
    given = posted.model_dump(exclude_unset=True, exclude={"date", "section", "deleted"})
    for name in ("sections", "paragraphs", "reporters"):
        if name in given:
            given[name] = tuple(given[name])
    article = as_shown(replace(article, **given))
    if posted.deleted:
        state.withdraw(posted.date, article)
    else:
        state.publish(posted.date, article)
    return article


def _new_article(state: SiteState, posted: PostedArticle) -> Article:
    section = posted.section or next(iter(posted.sections or []), None)
    if section is None:
        raise ValueError("a new article needs a section")
    if posted.deleted:
        raise ValueError("no such article to delete")
    noon = datetime.combine(posted.date, time(12), SEOUL)
    listed_at = posted.listed_at or (state.now() if posted.date == state.today() else noon)
    kind = posted.kind or Kind.CURRENT
    article = write_article(posted.date, state.next_index(posted.date), section, kind, listed_at)
    return replace(article, sections=(section,))


def _site_has(day: date) -> None:
    if day.year < EARLIEST_YEAR:
        raise ValueError(f"no day before {EARLIEST_YEAR}")


def manifest(state: SiteState, day: date, base: str) -> dict[str, Any]:
    """All that a right crawl of a whole day finds: articles in list order per section, and the lists."""
    lists = {section: state.listed(section, day, until=_LAST_MOMENT) for section in SECTIONS}
    articles = [
        article.manifest_entry(base)
        for section, listed in lists.items()
        for article in listed
        if article.sections[0] == section
    ]
    return {
        "date": day.isoformat(),
        "articles": articles,
        "lists": {section: [f"{one.oid}/{one.aid}" for one in listed] for section, listed in lists.items()},
        "not_listed": [f"{one.oid}/{one.aid}" for section in SECTIONS for one in state.aside(section, day)],
    }


def control_routes(state: SiteState) -> list[Route]:
    """The routes; a request that makes no sense is answered 400 with the reason."""

    async def get_manifest(request: Request) -> Response:
        day = date.fromisoformat(request.query_params.get("date", state.today().isoformat()))
        _site_has(day)
        return JSONResponse(manifest(state, day, str(request.base_url).rstrip("/")))

    async def post_clock(request: Request) -> Response:
        state.fixed_now = _Clock.model_validate_json(await request.body()).now
        return JSONResponse({"now": state.now().isoformat()})

    async def post_fault(request: Request) -> Response:
        state.faults.add(Fault.model_validate_json(await request.body()))
        return JSONResponse(state.faults.listed(), 201)

    async def get_faults(_: Request) -> Response:
        return JSONResponse(state.faults.listed())

    async def delete_faults(_: Request) -> Response:
        state.faults.clear()
        return JSONResponse([])

    async def post_robots(request: Request) -> Response:
        robots = _Robots.model_validate_json(await request.body())
        state.robots_text, state.robots_status = robots.text, robots.status
        return JSONResponse(robots.model_dump())

    async def post_article(request: Request) -> Response:
        article = publish(state, PostedArticle.model_validate_json(await request.body()))
        return JSONResponse(article.manifest_entry(str(request.base_url).rstrip("/")), 201)

    async def get_requests(request: Request) -> Response:
        return JSONResponse(state.requests_since(int(request.query_params.get("since", "0"))))

    async def post_reset(_: Request) -> Response:
        state.reset()
        return JSONResponse({"reset": True})

    routes: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
        ("GET", "manifest", get_manifest),
        ("POST", "clock", post_clock),
        ("POST", "faults", post_fault),
        ("GET", "faults", get_faults),
        ("DELETE", "faults", delete_faults),
        ("POST", "robots", post_robots),
        ("POST", "articles", post_article),
        ("GET", "requests", get_requests),
        ("POST", "reset", post_reset),
    ]
    return [
        Route(f"/_control/{name}", _or_reason(answer), methods=[method]) for method, name, answer in routes
    ]


def _or_reason(answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    @wraps(answer)
    async def checked(request: Request) -> Response:
        try:
            return await answer(request)
        except ValidationError as error:
            return JSONResponse({"error": error.errors(include_url=False, include_context=False)}, 400)
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400)

    return checked
