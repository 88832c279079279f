"""The open API's stand-in: its recipes, its codes, its misbehaviour, and that our reader understands it."""

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from assets.recipes.open_api import (
    OpenApiRefused,
    OpenApiUnavailable,
    OpenApiUnreadable,
    RecipePage,
    read_answer,
    source_url,
)
from local_stack.recipe_api.answers import MESSAGES
from local_stack.recipe_api.app import api_server, create_app
from local_stack.recipe_api.recipes import FIELDS, recipe_rows
from local_stack.recipe_api.state import KEY, ApiState

HARD_PARTS = [
    "새우두부계란찜\n연두부 75g(3/4모), 칵테일새우 20g(5마리)",
    "달걀 30g(1/2개)",
    "닭고기(가슴살, 120g)",
    "소고기(등심, 얇게 썬 것) 100g",
    "2가지색 파프리카 100g",
    "밥 180",
    "●양념장 :",
    "[2인분]",
    "물 300ml(1½컵)",
    "소금 약간",
    "단호박 샐러드\n단호박 샐러드\n",
]


@pytest.fixture
def api() -> TestClient:
    return TestClient(create_app(ApiState()), follow_redirects=False)


@pytest.fixture
def served() -> Iterator[str]:
    """The address of the stand-in behind its own server, for faults that need a connection."""
    server, bound = api_server(ApiState(), 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=10)
    bound.close()
    assert not thread.is_alive()


def path(
    start: Any = 1, end: Any = 100, key: str = KEY, service: str = "COOKRCP01", kind: str = "json"
) -> str:
    return f"/api/{key}/{service}/{kind}/{start}/{end}"


def read(api: TestClient, start: int = 1, end: int = 100) -> RecipePage:
    return read_answer(api.get(source_url("http://testserver", KEY, start, end)).content)


def fault(api: TestClient, **settings: Any) -> None:
    assert api.post("/_control/fault", json=settings).status_code == 201


def result(answer: Any) -> str:
    body = answer.json()
    return str(body.get("COOKRCP01", body)["RESULT"]["CODE"])


def test_every_row_has_the_fields_of_the_real_format_and_only_text(api: TestClient) -> None:
    rows = api.get(path(1, 1000)).json()["COOKRCP01"]["row"]
    assert len(rows) >= 64
    assert {tuple(row) for row in rows} == {FIELDS} and len(FIELDS) == 55
    assert {type(value) for row in rows for value in row.values()} == {str}
    assert len({row["RCP_SEQ"] for row in rows}) == len({row["RCP_NM"] for row in rows}) == len(rows)


def test_the_recipes_are_varied_and_hold_the_hard_lines() -> None:
    rows = recipe_rows()
    kinds, ways = (Counter(row[name] for row in rows) for name in ("RCP_PAT2", "RCP_WAY2"))
    assert set(kinds) == {"반찬", "국&찌개", "후식", "일품", "밥", "기타"} and min(kinds.values()) >= 3
    assert set(ways) == {"끓이기", "굽기", "볶기", "찌기", "튀기기", "기타"}
    for words, least in (("두부", 5), ("샐러드", 5), ("국수|우동|파스타|막국수", 5), ("국$|탕$|찌개$", 8)):
        assert sum(bool(re.search(words, row["RCP_NM"])) for row in rows) >= least, words
    assert sum(row["HASH_TAG"] == "아침" for row in rows) >= 5
    parts = "\n".join(row["RCP_PARTS_DTLS"] for row in rows)
    assert [one for one in HARD_PARTS if one not in parts] == []
    assert sum(bool(re.search(r"다\.[a-z]$", text)) for row in rows for text in row.values()) >= 8
    assert any(row["MANUAL20"] for row in rows)
    assert any(not row["RCP_PARTS_DTLS"] for row in rows) and any(not row["MANUAL01"] for row in rows)
    assert any(row["MANUAL04"] and not row["MANUAL03"] for row in rows)


def test_pages_follow_each_other_to_the_end(api: TestClient) -> None:
    total = read(api, 1, 1).total
    assert total is not None
    pages = [read(api, start, start + 29).rows for start in range(1, total + 1, 30)]
    assert [row for rows in pages for row in rows] == recipe_rows()
    after = read(api, total + 1, total + 30)
    assert (after.code, after.rows) == ("INFO-200", [])


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (path(key="other"), "INFO-100"),
        (path(service="I0030"), "ERROR-310"),
        (path(kind="xml"), "ERROR-301"),
        (path(start="x"), "ERROR-331"),
        (path(start=0), "ERROR-331"),
        (path(end="-5"), "ERROR-332"),
        (path(start=9, end=8), "ERROR-334"),
        (path(1, 1001), "ERROR-336"),
        (f"/api/{KEY}/COOKRCP01", "ERROR-300"),
        (path(1, 1000), "INFO-000"),
        (path(5000, 5001), "INFO-200"),
    ],
)
def test_a_request_is_answered_with_the_code_it_deserves(api: TestClient, asked: str, code: str) -> None:
    answer = api.get(asked)
    assert (answer.status_code, result(answer)) == (200, code)


@pytest.mark.parametrize("shape", ["wrapped", "bare", "xml", "gateway_xml", "html"])
@pytest.mark.parametrize("code", sorted(set(MESSAGES) - {"INFO-000", "INFO-200"}))
def test_every_code_in_every_shape_is_an_error_to_our_reader(api: TestClient, code: str, shape: str) -> None:
    fault(api, code=code, shape=shape)
    unavailable = code in ("INFO-300", "ERROR-500", "ERROR-601")
    expected: type[Exception] = OpenApiUnavailable if unavailable else OpenApiRefused
    if shape == "html" and code != "INFO-100":
        expected = OpenApiUnreadable
    if shape == "gateway_xml" and code.startswith("ERROR"):
        expected = OpenApiUnavailable
    with pytest.raises(expected) as raised:
        read(api)
    if shape in ("wrapped", "bare", "xml"):
        assert getattr(raised.value, "code", None) == code


def test_a_fault_meets_as_many_requests_as_it_says(api: TestClient) -> None:
    fault(api, code="ERROR-500", times=2, skip=1)
    codes = [result(api.get(path())) for _ in range(4)]
    assert codes == ["INFO-000", "ERROR-500", "ERROR-500", "INFO-000"]
    assert api.get("/_control/fault").json()[0]["fired"] == 2
    fault(api, status=503)
    assert api.get(path()).status_code == 503
    assert api.delete("/_control/fault").json() == []
    assert api.get(path()).status_code == 200


def test_a_short_page_says_the_whole_total(api: TestClient) -> None:
    fault(api, rows=3, times=1)
    page = read(api, 11, 40)
    assert page.rows == recipe_rows()[10:13] and page.total == len(recipe_rows())
    assert len(read(api, 11, 40).rows) == 30


def test_a_page_in_another_encoding_is_read_all_the_same(api: TestClient) -> None:
    expected = read(api, 1, 10).rows
    fault(api, encoding="cp949")
    answer = api.get(path(1, 10))
    assert "두부".encode("cp949") in answer.content and "UTF-8" in answer.headers["content-type"]
    assert read_answer(answer.content).rows == expected


def test_the_quota_ends_and_begins_again(api: TestClient) -> None:
    api.post("/_control/quota", json={"calls": 2})
    assert [result(api.get(path())) for _ in range(3)] == ["INFO-000", "INFO-000", "INFO-300"]
    api.post("/_control/quota", json={"calls": None})
    assert result(api.get(path())) == "INFO-000"


def test_an_edit_changes_one_recipe_and_a_new_seq_is_the_last(api: TestClient) -> None:
    before = read(api).rows
    api.post("/_control/edit", json={"seq": before[4]["RCP_SEQ"], "fields": {"RCP_NA_TIP": "바뀐 말"}})
    api.post("/_control/edit", json={"seq": "9001", "fields": {"RCP_NM": "새 요리"}})
    after = read(api).rows
    assert [n for n, row in enumerate(before) if after[n] != row] == [4]
    assert after[4] == {**before[4], "RCP_NA_TIP": "바뀐 말"}
    assert after[len(before) :] == [{**dict.fromkeys(FIELDS, ""), "RCP_SEQ": "9001", "RCP_NM": "새 요리"}]
    api.post("/_control/reset")
    assert read(api).rows == before == recipe_rows()


def test_requests_are_counted_and_no_other_key_is_kept(api: TestClient) -> None:
    assert api.get("/_control/requests").json() == {"count": 0, "requests": []}
    api.get(path(1, 5))
    api.get(path(key="a-real-key"))
    fault(api, status=500)
    api.get(path())
    seen = api.get("/_control/requests").json()
    assert seen["count"] == 3 and [one["status"] for one in seen["requests"]] == [200, 200, 500]
    assert seen["requests"][0]["path"] == path(1, 5)
    assert "a-real-key" not in json.dumps(seen)
    api.post("/_control/reset")
    assert api.get("/_control/requests").json()["count"] == 0


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("fault", {"code": "INFO-999"}),
        ("fault", {"shape": "yaml"}),
        ("fault", {"encoding": "klingon"}),
        ("fault", {"path": "("}),
        ("fault", {"unknown": 1}),
        ("edit", {"seq": "31", "fields": {"RCP_NMM": "x"}}),
        ("edit", {"seq": "31", "fields": {"RCP_SEQ": "32"}}),
        ("edit", {"seq": "31", "fields": {"RCP_NM": 5}}),
        ("quota", {"calls": -1}),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused(api: TestClient, name: str, body: dict[str, Any]) -> None:
    assert api.post(f"/_control/{name}", json=body).status_code == 400
    assert read(api).rows == recipe_rows() and api.get("/_control/fault").json() == []


def test_it_hangs_cuts_off_and_drops_connections_on_request(served: str) -> None:
    address = source_url(served, KEY, 1, 100)
    with httpx.Client(timeout=10) as client:
        client.post(f"{served}/_control/fault", json={"hang": True, "times": 1})
        with pytest.raises(httpx.ReadTimeout):
            client.get(address, timeout=0.3)
        client.post(f"{served}/_control/fault", json={"truncate_bytes": 2000, "times": 1})
        with pytest.raises(httpx.RemoteProtocolError):
            client.get(address)
        client.post(f"{served}/_control/fault", json={"drop_connection": True, "times": 1})
        with pytest.raises(httpx.HTTPError):
            client.get(address)
        assert read_answer(client.get(address).content).rows == recipe_rows()


def test_a_body_that_was_cut_without_a_sign_is_unreadable(api: TestClient) -> None:
    whole = api.get(path(1, 5)).content
    fault(api, body=whole[:2000].decode("utf-8", "ignore"))
    with pytest.raises(OpenApiUnreadable):
        read(api)
