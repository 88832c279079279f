import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from hypothesis import given
from hypothesis import strategies as st

from api import context_tags
from api.database import pool_of
from assets.context_tags.models import DEFAULT_PROFILE, ContextRequest
from assets.context_tags.search import FLOOR, FLOOR_OF_A_SHORT_WORD, floor_for
from assets.context_tags.search_store import Found
from tests.bad_inputs import bad_inputs
from tests.unit.api.tokens import ADMIN, API_TOKEN, BEARER, configure, door

PROCESS = "/internal/v1/context/process"
SEARCH = "/internal/v1/search"
SECRET = "canary-9d40"
GOOD: dict[str, Any] = {
    "contextId": 7,
    "userId": 70,
    "recordId": 700,
    "text": "친구와 조용한 카페에서",
    "placeMeta": {"name": "골목 카페", "tags": ["조용함"], "score": 4.5},
}
ASKED: dict[str, Any] = {
    "userId": 70,
    "query": "조용한 카페",
    "limit": 5,
    "embeddingProfile": DEFAULT_PROFILE,
}
LARGEST = 2**63 - 1


class NoDatabase:
    @contextmanager
    def connection(self) -> Iterator[None]:
        yield None


class Written:
    """What reached the stores and the search."""

    def __init__(self) -> None:
        self.posted: list[tuple[ContextRequest, object, str, bool]] = []
        self.searches: list[tuple[int, str, int]] = []
        self.profile = DEFAULT_PROFILE

    def accept(self, _: object, request: ContextRequest, place: object, hmac: str, own: bool) -> object:
        self.posted.append((request, place, hmac, own))
        return SimpleNamespace(replaced_hmac=None, text_was_taken=True)

    def find(self, _: object, user_id: int, query: str, limit: int) -> list[Found]:
        self.searches.append((user_id, query, limit))
        return [Found(700, 7, 0.75), Found(701, 9, 0.5)]


@pytest.fixture(scope="module")
def written() -> Written:
    return Written()


@pytest.fixture(scope="module")
def client(written: Written) -> Iterator[TestClient]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        configure(monkeypatch)
        monkeypatch.setattr(context_tags, "request_store", written)
        client = door()
        client.app.state.search = written  # type: ignore[attr-defined]
        client.app.state.search_pool = NoDatabase()  # type: ignore[attr-defined]
        client.app.dependency_overrides = {pool_of: NoDatabase}  # type: ignore[attr-defined]
        yield client


def post(client: TestClient, body: object, route: str = PROCESS) -> Response:
    # Not json=: the client refuses to send NaN and lone surrogates, which others do send.
    return client.post(
        route, content=json.dumps(body).encode(), headers={**BEARER, "Content-Type": "application/json"}
    )


def refused(answered: Response) -> list[str]:
    assert answered.status_code == 422, answered.text
    assert SECRET not in answered.text
    return [f"{field['field']} {field['rule']}" for field in answered.json()["fields"]]


def test_a_text_is_accepted_with_an_empty_answer(client: TestClient, written: Written) -> None:
    answered = post(client, GOOD)
    assert (answered.status_code, answered.content) == (202, b"")
    request, place, hmac, own_state = written.posted[-1]
    assert request == ContextRequest(7, 70, 700, GOOD["text"])
    assert (place, len(hmac), own_state) == (GOOD["placeMeta"], 64, False)


@pytest.mark.parametrize(
    "body", [{**GOOD, "placeMeta": None}, {k: GOOD[k] for k in GOOD if k != "placeMeta"}]
)
def test_the_place_may_be_missing(client: TestClient, written: Written, body: dict[str, Any]) -> None:
    assert post(client, body).status_code == 202
    assert written.posted[-1][1] is None


def test_the_longest_text_fits_even_if_every_character_is_two_escapes(
    client: TestClient, written: Written
) -> None:
    text = "😀" * 20_000
    assert len(json.dumps(text)) > 240_000
    assert post(client, {**GOOD, "text": text}).status_code == 202
    assert written.posted[-1][0].text == text
    assert refused(post(client, {**GOOD, "text": "가" * 20_001})) == ["body.text text_too_long"]


@pytest.mark.parametrize(
    ("field", "values"),
    [
        *(
            (id_, [0, -1, LARGEST + 1, 10**40, "7", 7.0, 7.5, True, None, [7], SECRET])
            for id_ in ("contextId", "userId", "recordId")
        ),
        ("text", ["", " \n\t", f"{SECRET}\x00", f"{SECRET}\ud800", 7, None, [SECRET], {SECRET: 1}]),
        (
            "placeMeta",
            [
                *([SECRET], SECRET, 7, True),
                *({"a": float("nan")}, {"a": [float("inf")]}, {"a": f"{SECRET}\x00"}, {SECRET: "\udc00"}),
                *({f"{SECRET}\x00": 1}, {"a": SECRET * 500}, {"a": 10**4_100}),
                json.loads('{"a":' * 40 + "1" + "}" * 40),
            ],
        ),
    ],
)
def test_a_value_outside_its_rule_is_refused_by_its_field(
    client: TestClient, field: str, values: list[object]
) -> None:
    for value in values:
        told = refused(post(client, {**GOOD, field: value}))
        assert [one.split()[0] for one in told] == [f"body.{field}"]


@pytest.mark.parametrize("field", ["contextId", "userId", "recordId", "text"])
def test_a_missing_field_is_refused(client: TestClient, field: str) -> None:
    assert refused(post(client, {key: GOOD[key] for key in GOOD if key != field})) == [
        f"body.{field} missing"
    ]


def test_a_field_of_another_name_is_refused(client: TestClient) -> None:
    assert refused(post(client, {**GOOD, SECRET: 1})) == ["body extra_forbidden"]
    assert refused(post(client, {**GOOD, "context_id": 7})) == ["body extra_forbidden"]


@pytest.mark.parametrize("value", [1, LARGEST])
def test_every_positive_bigint_is_an_id(client: TestClient, written: Written, value: int) -> None:
    assert post(client, {**GOOD, "contextId": value, "userId": value, "recordId": value}).status_code == 202
    assert written.posted[-1][0].context_id == value


@pytest.mark.parametrize("key", [None, "", "short", "with a space in it", "열쇠열쇠열쇠열쇠열쇠열쇠열쇠열쇠"])
def test_without_a_usable_key_for_the_hash_nothing_is_stored(
    client: TestClient, written: Written, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    monkeypatch.delenv("CONTEXT_HMAC_KEY")
    if key is not None:
        monkeypatch.setenv("CONTEXT_HMAC_KEY", key)
    before = len(written.posted)
    answered = post(client, GOOD)
    assert answered.status_code == 503
    assert answered.json()["error"].startswith("CONTEXT_HMAC_KEY is not configured")
    assert len(written.posted) == before


def test_the_hash_depends_on_the_text_and_on_the_key(
    client: TestClient, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = []
    for text, key in (("가", "k" * 16), ("가", "k" * 16), ("나", "k" * 16), ("가", "l" * 16)):
        monkeypatch.setenv("CONTEXT_HMAC_KEY", key)
        post(client, {**GOOD, "text": text})
        hashes.append(written.posted[-1][2])
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


@pytest.mark.parametrize(
    ("method", "path"), [("POST", PROCESS), ("POST", SEARCH), ("DELETE", "/internal/v1/users/70")]
)
def test_without_the_internal_token_nothing_is_looked_at(client: TestClient, method: str, path: str) -> None:
    for headers in ({}, ADMIN, {"Authorization": f"Bearer {API_TOKEN}x"}):
        answered = client.request(method, path, headers=headers, content=b"{broken")
        assert (answered.status_code, list(answered.json())) == (401, ["error"])


def test_what_is_found_is_told_in_its_order(client: TestClient, written: Written) -> None:
    answered = post(client, ASKED, SEARCH)
    assert (answered.status_code, answered.json()) == (
        200,
        {
            "results": [
                {"recordId": 700, "contextId": 7, "similarity": 0.75},
                {"recordId": 701, "contextId": 9, "similarity": 0.5},
            ]
        },
    )
    assert written.searches[-1] == (70, "조용한 카페", 5)


def test_another_profile_is_refused_with_both_and_nothing_is_searched(
    client: TestClient, written: Written
) -> None:
    other = "openai-text-embedding-3-large-3072-cosine-v1"
    before = len(written.searches)
    answered = post(client, {**ASKED, "embeddingProfile": other}, SEARCH)
    assert (answered.status_code, answered.json()) == (
        422,
        {"error": "the embedding profiles differ", "expected": DEFAULT_PROFILE, "given": other},
    )
    assert len(written.searches) == before


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("userId", [0, "70", None]),
        ("query", ["", "  ", "가" * 1_001, f"{SECRET}\x00", f"{SECRET}\ud800", 7, None]),
        ("limit", [0, -1, 101, "5", 5.0, None, True]),
        ("embeddingProfile", ["", f"{SECRET} with spaces", "<b>", "가", "x" * 101, None, 7]),
    ],
)
def test_a_search_that_does_not_fit_is_refused_by_its_field(
    client: TestClient, field: str, values: list[object]
) -> None:
    for value in values:
        told = refused(post(client, {**ASKED, field: value}, SEARCH))
        assert [one.split()[0] for one in told] == [f"body.{field}"]


@pytest.mark.parametrize(
    "given", ["0", "-1", "+7", "7.0", "07", "%207", "7%20", "7_0", "seven", "٧", str(2**63)]
)
def test_an_erasure_of_no_user_is_refused(client: TestClient, given: str) -> None:
    answered = client.delete(f"/internal/v1/users/{given}", headers=BEARER)
    assert [one.split()[0] for one in refused(answered)] == ["path.userId"]


@pytest.mark.parametrize(
    ("query", "floor"),
    [
        ("카페", FLOOR_OF_A_SHORT_WORD),
        ("  카페 ", FLOOR_OF_A_SHORT_WORD),
        ("크리스마스", FLOOR_OF_A_SHORT_WORD),
        ("\u110f\u1173\u1105\u1175\u1109\u1173\u1106\u1161\u1109\u1173", FLOOR_OF_A_SHORT_WORD),
        ("전시회관람기", FLOOR),
        ("조용한 곳", FLOOR),
        ("비 옴", FLOOR),
    ],
)
def test_one_word_of_up_to_five_characters_has_the_lower_floor(query: str, floor: float) -> None:
    assert floor_for(query) == floor


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.sampled_from(["가", DEFAULT_PROFILE]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def _bodies_like(good: dict[str, Any]) -> st.SearchStrategy[bytes]:
    return st.one_of(
        st.binary(max_size=200),
        _values.map(lambda value: json.dumps(value).encode()),
        st.fixed_dictionaries(
            {}, optional={name: st.just(value) | _values for name, value in good.items()}
        ).map(lambda body: json.dumps(body).encode()),
    )


@bad_inputs
@given(sent=st.tuples(st.just(PROCESS), _bodies_like(GOOD)) | st.tuples(st.just(SEARCH), _bodies_like(ASKED)))
def test_no_body_makes_it_fail(client: TestClient, written: Written, sent: tuple[str, bytes]) -> None:
    route, body = sent
    before = len(written.posted) + len(written.searches)
    answered = client.post(route, content=body, headers={**BEARER, "Content-Type": "application/json"})
    assert answered.status_code in (200, 202, 400, 422)
    was_taken = answered.status_code in (200, 202)
    assert len(written.posted) + len(written.searches) == before + was_taken
