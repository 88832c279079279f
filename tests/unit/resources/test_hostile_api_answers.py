"""Generated answers of a model's API: what was asked for, or an ApiFailure that says who must act."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from types import NoneType
from typing import Any

import httpx2
import openai
from hypothesis import example, given
from hypothesis import strategies as st

from resources.api_failure import MAX_RETRY_AFTER_SECONDS, ApiFailure
from resources.batch_state import BatchState
from resources.batches import BatchApi, BatchResource
from resources.chat import ChatResource, JsonSchema
from resources.embeddings import EmbeddingResource
from resources.openai_api import OpenAiResource
from tests.bad_inputs import bad_inputs

SINCE = datetime(2026, 11, 30, tzinfo=UTC)
SECRET = "key-that-nobody-may-see"
DEEP = b"[" * 100_000
JSON = {"content-type": "application/json"}

TEXT = st.text(st.characters(), max_size=10)  # lone surrogates included
NUMBERS = (
    st.integers(-2, 300)
    | st.floats()
    | st.sampled_from([True, 10**19, 10**400, -(10**400), 1e308, 1780000000])
)
LEAVES = TEXT | NUMBERS | st.none() | st.just(SECRET) | st.just("insufficient_quota")
NAMES = (
    st.sampled_from(["id", "object", "data", "choices", "usage", "error", "code", "type", "message"]) | TEXT
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)
Objects = st.SearchStrategy[dict[str, Any]]


def odd(right: dict[str, st.SearchStrategy[Any]]) -> Objects:
    """Objects with these fields, at times with some of another shape or left out."""
    bent = st.fixed_dictionaries({}, optional={name: one | VALUES for name, one in right.items()})
    return st.fixed_dictionaries(right) | bent


def several(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, min_size=1, max_size=2) | st.lists(inner | VALUES, max_size=2)


COUNTS = NUMBERS | st.integers(0, 1_000)
USAGE = odd(
    {
        "prompt_tokens": COUNTS,
        "completion_tokens": COUNTS,
        "prompt_tokens_details": odd({"cached_tokens": COUNTS}),
    }
)
CHOICES = several(
    odd(
        {
            "finish_reason": st.sampled_from(["stop", "length", "content_filter"]),
            "message": odd({"content": TEXT, "refusal": st.none() | TEXT}),
        }
    )
)
COMPLETIONS = odd({"id": TEXT, "choices": CHOICES, "usage": USAGE, "model": TEXT})
VECTORS = st.lists(NUMBERS, min_size=2, max_size=2) | st.sampled_from(["AACAPwAAAEA=", "AACAPw", "가"])
EMBEDDINGS = odd(
    {
        "data": several(odd({"index": st.integers(0, 1) | NUMBERS, "embedding": VECTORS | VALUES})),
        "usage": USAGE,
    }
)
ERRORS = odd({"error": odd({"code": LEAVES, "type": LEAVES, "message": LEAVES}) | VALUES})
CREATED = st.sampled_from([1780000000, 1800000000]) | NUMBERS  # before and after SINCE
BATCH = {
    "id": st.just("batch_1") | TEXT,
    "status": st.sampled_from(["completed", "failed", "in_progress"]) | TEXT,
    "endpoint": st.just("/v1/embeddings"),
    "input_file_id": st.just("file_1"),
    "output_file_id": st.none() | st.just("file_2"),
    "error_file_id": st.none() | st.just("file_3"),
    "created_at": CREATED,
    "metadata": st.none() | st.dictionaries(TEXT, TEXT, max_size=2) | VALUES,
    "request_counts": st.none() | odd({"total": COUNTS, "completed": COUNTS, "failed": COUNTS}),
    "errors": st.none() | odd({"data": several(odd({"code": LEAVES, "line": COUNTS}))}),
}
BATCHES = odd(BATCH)
FILES = odd({"id": TEXT, "filename": st.just("a.jsonl") | TEXT, "created_at": CREATED})
LISTS = odd({"data": several(BATCHES | FILES), "has_more": st.booleans()})


def bodies(right: Objects) -> st.SearchStrategy[bytes]:
    """What may come as a body: what was asked for, damaged, of another route, or no JSON at all."""
    written = (right | right | right | ERRORS | VALUES).map(json.dumps)
    cut = st.builds(lambda text, end: text[:end], written, st.integers(0, 200))
    return (written | written | cut).map(str.encode) | st.binary(max_size=30) | st.just(DEEP)


STATUSES = st.just(200) | st.sampled_from([200, 201, 204, 301, 400, 401, 404, 408, 409, 429, 500, 503, 599])
HEADERS = st.fixed_dictionaries(
    {
        "content-type": st.sampled_from(
            ["application/json", "application/json; charset=none", "text/html", ""]
        )
    },
    optional={
        "retry-after": st.sampled_from(["1", "-1", "nan", "1e999", "soon", "Mon, 99 Nov 2026 12:00:00 GMT"]),
        "content-encoding": st.sampled_from(["gzip", "identity", "none-such"]),
        "location": st.sampled_from(["/v1/elsewhere", "http://[::1"]),
    },
)


class Answering:
    """A client of the SDK whose every request is answered with what stands here."""

    def __init__(self) -> None:
        self.status, self.headers, self.body = 200, dict[str, str](), b""
        http = httpx2.Client(transport=httpx2.MockTransport(self._answered))
        self.client = openai.OpenAI(
            api_key=SECRET, base_url="http://x.test/v1", max_retries=0, http_client=http
        )

    def _answered(self, request: httpx2.Request) -> httpx2.Response:
        body = httpx2.ByteStream(self.body)
        return httpx2.Response(self.status, headers=self.headers, stream=body, request=request)


ANSWERING = Answering()  # making a client takes longer than asking it


def asked(api: OpenAiResource, status: int, headers: dict[str, str], body: bytes) -> None:
    """Has the resource answered like this."""
    ANSWERING.status, ANSWERING.headers, ANSWERING.body = status, headers, body
    api._client = ANSWERING.client


def assert_says_who_must_act(failure: ApiFailure) -> None:
    assert failure.verdict.effect in ("SUSPEND", "RETRY", "FAIL")
    assert failure.code.isascii() and 0 < len(failure.code) <= 60
    assert SECRET not in str(failure) and "\x00" not in str(failure)
    after = failure.retry_after_seconds
    assert after is None or 0 <= after <= MAX_RETRY_AFTER_SECONDS


def completion(content: str, tokens: int) -> bytes:
    """An answer in which `content` stands as it is, and that says to have used so many tokens."""
    return (
        f'{{"choices": [{{"finish_reason": "stop", "message": {{"content": {content}}}}}], '
        f'"usage": {{"prompt_tokens": {tokens}, "completion_tokens": 1}}}}'
    ).encode()


@bad_inputs
@given(status=STATUSES, headers=HEADERS, body=bodies(COMPLETIONS))
@example(status=200, headers=JSON, body=DEEP)
@example(status=200, headers=JSON, body=completion('["가"]', 5))
@example(status=200, headers=JSON, body=completion("7", 5))
@example(status=200, headers=JSON, body=completion('"가"', 2**31))
def test_a_question_is_answered_in_text_or_failed(status: int, headers: dict[str, str], body: bytes) -> None:
    chat = ChatResource(model="gpt-4o-mini", api_key=SECRET)
    asked(chat, status, headers, body)
    try:
        answer = chat.ask([{"role": "user", "content": "?"}], JsonSchema("s", {}))
    except ApiFailure as failure:
        assert_says_who_must_act(failure)
        return
    assert isinstance(answer.content, str) and isinstance(answer.model, str)
    assert answer.refusal in (None, "refusal", "content_filter")
    # As the tables of spending hold them.
    assert 0 <= answer.usage.cached_tokens <= answer.usage.input_tokens < 2**31
    assert 0 <= answer.usage.output_tokens < 2**31
    assert Decimal(0) <= answer.usage.cost_usd < 10**6


@bad_inputs
@given(status=STATUSES, headers=HEADERS, body=bodies(EMBEDDINGS), texts=st.integers(1, 2))
@example(status=200, headers=JSON, body=DEEP, texts=1)
@example(
    status=200,
    headers=JSON,
    body=b'{"data": [{"index": 0, "embedding": [1, 1%s]}], "usage": {"prompt_tokens": 1}}' % (b"0" * 400),
    texts=1,
)
def test_texts_get_vectors_that_can_be_compared_or_a_failure(
    status: int, headers: dict[str, str], body: bytes, texts: int
) -> None:
    model = EmbeddingResource(model="text-embedding-3-small", api_key=SECRET, dimensions=2)
    asked(model, status, headers, body)
    try:
        vectors, usage = model.embed(["가"] * texts)
    except ApiFailure as failure:
        assert_says_who_must_act(failure)
        return
    assert len(vectors) == texts and all(len(vector) == 2 and any(vector) for vector in vectors)
    assert 0 <= usage.input_tokens < 2**31


ASK: dict[str, Callable[[BatchApi], object]] = {
    "look": lambda api: api.look("batch_1"),
    "create": lambda api: api.create("file_1", "/v1/embeddings", {}),
    "cancel": lambda api: api.cancel("batch_1"),
    "created_since": lambda api: list(api.created_since(SINCE)),
    "files_named": lambda api: api.files_named("a.jsonl", SINCE),
    "upload": lambda api: api.upload(BytesIO(b"{}\n"), "a.jsonl"),
    "download": lambda api: api.download("file_1"),
    "delete_file": lambda api: api.delete_file("file_1"),
}
MANY = ("created_since", "files_named")
# Of a list: what stands in it.
GIVEN: dict[str, tuple[type, ...]] = {
    "look": (BatchState, NoneType),
    "create": (BatchState,),
    "cancel": (BatchState, NoneType),
    "created_since": (BatchState,),
    "files_named": (str,),
    "upload": (str,),
    "download": (bytes, NoneType),
    "delete_file": (NoneType,),
}


@bad_inputs
@given(
    ask=st.sampled_from(sorted(ASK)), status=STATUSES, headers=HEADERS, body=bodies(BATCHES | LISTS | FILES)
)
@example(
    ask="look",
    status=200,
    headers=JSON,
    body=b'{"id": "b", "status": "failed", "endpoint": "e", "input_file_id": "f", "output_file_id": null, '
    b'"error_file_id": null, "created_at": 1e308, "metadata": null, "request_counts": null, "errors": null}',
)
@example(
    ask="look",
    status=200,
    headers=JSON,
    body=b'{"id": "b", "status": "failed", "endpoint": "e", "input_file_id": "f", "output_file_id": null, '
    b'"error_file_id": null, "created_at": 100000000000000000, "metadata": null, "request_counts": null, '
    b'"errors": null}',
)
@example(
    ask="files_named",
    status=200,
    headers=JSON,
    body=b'{"data": [{"id": "f", "filename": "a.jsonl", "created_at": 100000000000000000}]}',
)
@example(
    ask="files_named",
    status=200,
    headers=JSON,
    body=b'{"data": [{"id": "f", "filename": "a.jsonl", "created_at": 1800000000}]}',
)
@example(ask="look", status=200, headers=JSON, body=DEEP)
def test_a_batch_or_file_is_told_or_failed(
    ask: str, status: int, headers: dict[str, str], body: bytes
) -> None:
    resource = BatchResource(model="gpt-4o-mini", api_key=SECRET)
    asked(resource, status, headers, body)
    try:
        told = ASK[ask](BatchApi(resource._open_client(), resource._failures))
    except ApiFailure as failure:
        assert_says_who_must_act(failure)
        return
    assert isinstance(told, list) == (ask in MANY)
    for one in told if isinstance(told, list) else [told]:
        assert type(one) in GIVEN[ask]
        if isinstance(one, BatchState):
            assert_sound(one)
        assert one != ""  # as an id
    if isinstance(told, bytes) and "content-encoding" not in headers:
        assert told == body


def assert_sound(state: BatchState) -> None:
    assert state.id and isinstance(state.endpoint, str) and isinstance(state.input_file_id, str)
    for file in (state.output_file_id, state.error_file_id):
        assert file is None or (isinstance(file, str) and file)
    assert all(isinstance(text, str) for pair in state.metadata.items() for text in pair)
    for count in (state.counts.total, state.counts.completed, state.counts.failed):
        assert type(count) is int and 0 <= count < 2**31
    assert state.created_at.utcoffset() == timedelta(0)
    assert state.suspend_reason in (None, "QUOTA", "AUTH", "MODEL")
