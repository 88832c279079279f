"""context_tags' routes: a text to embed and tag, a search, and a user's erasure."""

import logging
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Path, Request, Response
from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from api.access import configured
from api.answers import ErrorAnswer, InvalidRequest, answers, internal_router
from api.database import Connections, Pool
from api.errors import WORTH_A_TRY, error_answer
from api.fields import Asked, Id, IdInPath, Told
from assets.context_tags import erasure_store, request_store
from assets.context_tags.models import ContextRequest
from assets.context_tags.request_text import (
    MOST_CHARACTERS,
    MOST_META_BYTES,
    keyed_hash,
    place_meta_problem,
    problem_of,
)
from assets.context_tags.search import ContextSearch, SearchRefused, SearchUnavailable
from orchestration.settings import Settings
from resources.counters import Counts

logger = logging.getLogger("granary.api")

MOST_QUERY_CHARACTERS = 1_000
MOST_RESULTS = 100
ERASURE_SECONDS = 60
"""Longer than other statements have: one transaction clears all that there is of a user."""

internal_routes = internal_router("/internal/v1")


def _usable_text(text: str) -> str:
    if problem := problem_of(text):
        limit = {"max_length": MOST_CHARACTERS} if problem == "too_long" else None
        raise PydanticCustomError(f"text_{problem}", "a text that can be stored", limit)
    return text


def _usable_place(value: Any) -> Any:
    if value is not None and place_meta_problem(value):
        raise PydanticCustomError(
            "place_meta", f"an object of {MOST_META_BYTES:,} bytes at most, without NUL, NaN and infinity"
        )
    return value


def _text_schema(most: int) -> dict[str, object]:
    not_blank = r"^[^\u0000]*[^\s\u0000][^\u0000]*$"
    return {"type": "string", "minLength": 1, "maxLength": most, "pattern": not_blank}


# Any, so that none of its keys is ever told as a field that does not fit.
_PlaceMeta = Annotated[
    Any, AfterValidator(_usable_place), WithJsonSchema({"anyOf": [{"type": "object"}, {"type": "null"}]})
]


class ContextPosted(Asked):
    """A text of a user's record; `placeMeta` is kept as long as the text and used for nothing else yet."""

    context_id: Id
    user_id: Id
    record_id: Id
    text: Annotated[str, AfterValidator(_usable_text), WithJsonSchema(_text_schema(MOST_CHARACTERS))]
    place_meta: _PlaceMeta = None


class SearchAsked(Asked):
    """What is looked for among whose records."""

    user_id: Id
    query: Annotated[
        str,
        Field(max_length=MOST_QUERY_CHARACTERS),
        AfterValidator(_usable_text),
        WithJsonSchema(_text_schema(MOST_QUERY_CHARACTERS)),
    ]
    limit: Annotated[int, Field(ge=1, le=MOST_RESULTS)]
    embedding_profile: Annotated[str, Field(pattern=r"^[A-Za-z0-9._/-]{1,100}$")]


class Result(Told):
    """A record, the context of it that is nearest, and that one's cosine similarity."""

    record_id: int
    context_id: int
    similarity: float


class Results(Told):
    """The nearest first."""

    results: list[Result]


class OtherProfile(ErrorAnswer):
    """The two vector spaces cannot be compared."""

    expected: str
    given: str


class Erased(Told):
    """How many rows of the user's were cleared, and how many contexts were stopped before their end."""

    requests: int
    embeddings: int
    keywords: int
    analyses: int
    cancelled: int


async def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


async def _search(request: Request) -> ContextSearch:
    search: ContextSearch = request.app.state.search
    return search


async def _search_pool(request: Request) -> Pool:
    pool: Pool = request.app.state.search_pool
    return pool


@internal_routes.post(
    "/context/process", status_code=202, response_class=Response, responses=answers(400, 422)
)
def process_context(
    posted: ContextPosted, pool: Connections, settings: Annotated[Settings, Depends(_settings)]
) -> Response:
    """Stores the request; a run takes it from there. Core reads what becomes of it in `ai.context_ai_state`.

    Another text for a known context is taken only while a stage is PENDING.
    """
    text_hmac = keyed_hash(posted.text, configured("CONTEXT_HMAC_KEY").encode())
    request = ContextRequest(posted.context_id, posted.user_id, posted.record_id, posted.text)
    with pool.connection() as connection:
        accepted = request_store.accept(
            connection, request, posted.place_meta, text_hmac, settings.context_own_state
        )
        if accepted.replaced_hmac is not None:
            breach = Counts()
            breach.add("context_contract_breaches_total")
            breach.write(connection)
    if accepted.replaced_hmac is not None:
        logger.warning(
            "another text was posted for the known context %d: text_hmac %s, before %s, %s",
            posted.context_id,
            text_hmac,
            accepted.replaced_hmac,
            "taken" if accepted.text_was_taken else "not taken",
        )
    return Response(status_code=202)


@internal_routes.post(
    "/search",
    responses=answers(400, 422, 502) | {422: answers(422)[422] | {"model": InvalidRequest | OtherProfile}},
    response_model=Results,
)
def search(
    asked: SearchAsked,
    contexts: Annotated[ContextSearch, Depends(_search)],
    pool: Annotated[Pool, Depends(_search_pool)],
) -> Results | Response:
    """The user's records that are nearest to the query, with the best context of each."""
    if asked.embedding_profile != contexts.profile:
        return error_answer(
            422,
            "the embedding profiles differ",
            expected=contexts.profile,
            given=asked.embedding_profile,
        )
    try:
        with pool.connection() as connection:
            found = contexts.find(connection, asked.user_id, asked.query, asked.limit)
    except SearchUnavailable:
        raise HTTPException(503, "the search is not available now", WORTH_A_TRY) from None
    except SearchRefused:
        raise HTTPException(502, "the model's provider refused") from None
    return Results(results=[Result(**asdict(one)) for one in found])


@internal_routes.delete("/users/{userId}", responses=answers(422))
def erase_user(user_id: Annotated[IdInPath, Path(alias="userId")], pool: Connections) -> Erased:
    """Clears all that is kept of the user's contexts and stops what runs of them."""
    with pool.connection() as connection, connection.transaction():
        connection.execute("SELECT set_config('statement_timeout', %s, true)", (f"{ERASURE_SECONDS}s",))
        erased = erasure_store.erase_user(connection, user_id)
    # Ids only. After a restore of the database this is what says which erasures are to be made again.
    logger.warning("erased the contexts of user %d", user_id)
    return Erased(**asdict(erased))
