import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from hypothesis import given
from hypothesis import strategies as st

from api import raw_files
from api.database import pool_of
from tests.bad_inputs import bad_inputs
from tests.unit.api.tokens import ADMIN, ADMIN_TOKEN, BEARER, configure, door

ROUTE = "/api/v1/seeds/orchestrate"
GOOD = {"country": "kr", "category": "news", "date": "2026-01-30"}
TODAY = date(2026, 3, 1)


class NoDatabase:
    @contextmanager
    def connection(self) -> Iterator[None]:
        yield None


@pytest.fixture(scope="module")
def written() -> list[tuple[object, ...]]:
    """The requests that were written down."""
    return []


@pytest.fixture(scope="module")
def client(written: list[tuple[object, ...]]) -> Iterator[TestClient]:
    def write_down(_: object, *asked: object) -> int:
        written.append(asked)
        return len(written)

    reports = {date(2026, 1, 30): {"success_rate": 0.5, "note": "요약"}}
    store = SimpleNamespace(request_partition=write_down, daily_report=lambda _, day: reports.get(day))
    with pytest.MonkeyPatch.context() as monkeypatch:
        configure(monkeypatch)
        monkeypatch.setattr(raw_files, "partition_store", store)
        client = door()
        client.app.dependency_overrides = {  # type: ignore[attr-defined]
            pool_of: NoDatabase,
            raw_files.today_utc: lambda: TODAY,
        }
        yield client


def ask(client: TestClient, body: object) -> Response:
    return client.post(ROUTE, json=body, headers=ADMIN)


def refused_fields(answered: Response) -> list[str]:
    assert answered.status_code == 422
    return [field["field"] for field in answered.json()["fields"]]


def test_a_request_is_written_down_and_answered_with_its_partition(
    client: TestClient, written: list[tuple[object, ...]]
) -> None:
    answered = ask(client, {**GOOD, "force": True})
    assert answered.status_code == 202
    assert answered.json() == {"request_id": len(written), "partition": "2026-01-30|kr/news"}
    assert written[-1] == ("kr", "news", date(2026, 1, 30), True)


def test_without_force_nothing_is_forced(client: TestClient, written: list[tuple[object, ...]]) -> None:
    assert ask(client, GOOD).status_code == 202
    assert written[-1][-1] is False


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("country", ["", "k", "kor", "KR", "k1", "кг", "kr\n", " kr", 82, None, ["kr"]]),
        ("category", ["", "News", "a" * 41, "new-s", "a/b", "news|x", "뉴스", "news\n", "news\x00", 1, None]),
        (
            "date",
            [
                *("", "2026-1-30", "2026-02-30", "20260130", "2026-W05-5", "2026-01-30T00:00:00"),
                *("٢٠٢٦-٠١-٣٠", "2026-01-30\n", "2026-00-10", "0000-01-01", 1769731200, 20260130, None, True),
            ],
        ),
        ("force", ["true", "yes", 1, 0, None, []]),
    ],
)
def test_a_value_outside_its_rule_is_refused(client: TestClient, field: str, values: list[object]) -> None:
    for value in values:
        assert refused_fields(ask(client, {**GOOD, field: value})) == [f"body.{field}"], value


@pytest.mark.parametrize("day", ["2026-02-30", "30.01.2026"])
def test_a_date_of_another_form_and_one_that_does_not_exist_break_the_same_rule(
    client: TestClient, day: str
) -> None:
    fields = ask(client, {**GOOD, "date": day}).json()["fields"]
    assert fields == [{"field": "body.date", "rule": "date_as_year_month_day"}]


@pytest.mark.parametrize("field", GOOD)
def test_a_missing_field_is_refused(client: TestClient, field: str) -> None:
    body = {name: value for name, value in GOOD.items() if name != field}
    assert refused_fields(ask(client, body)) == [f"body.{field}"]


def test_an_unknown_field_is_refused(client: TestClient) -> None:
    assert refused_fields(ask(client, {**GOOD, "forced": True})) == ["body"]


@pytest.mark.parametrize(
    ("day", "status"), [("2025-12-31", 422), ("2026-01-01", 202), ("2026-03-02", 202), ("2026-03-03", 422)]
)
def test_days_from_the_first_one_to_tomorrow_can_be_asked_for(
    client: TestClient, day: str, status: int
) -> None:
    assert ask(client, {**GOOD, "date": day}).status_code == status


def test_a_day_out_of_range_is_told_the_range(client: TestClient) -> None:
    assert ask(client, {**GOOD, "date": "2020-01-01"}).json()["fields"] == [
        {"field": "body.date", "rule": "date_out_of_range", "ge": "2026-01-01", "le": "2026-03-02"}
    ]


def test_a_report_is_given_as_it_was_stored(client: TestClient) -> None:
    answered = client.get("/api/v1/raw/daily/2026-01-30", headers=BEARER)
    assert (answered.status_code, answered.json()) == (200, {"success_rate": 0.5, "note": "요약"})


def test_a_day_without_a_report_is_not_found(client: TestClient) -> None:
    assert client.get("/api/v1/raw/daily/2026-01-29", headers=BEARER).status_code == 404


@pytest.mark.parametrize("day", ["yesterday", "2026-02-30", "1769731200", "2026-01-30T00:00:00"])
def test_a_report_of_no_day_is_refused(client: TestClient, day: str) -> None:
    assert refused_fields(client.get(f"/api/v1/raw/daily/{day}", headers=BEARER)) == ["path.date"]


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["kr", "news", "2026-01-30"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_bodies = st.one_of(
    st.binary(max_size=200),
    st.text().map(lambda text: text.encode("utf-8", "surrogatepass")),
    _values.map(lambda value: json.dumps(value).encode()),
    st.fixed_dictionaries({}, optional={**dict.fromkeys(GOOD, _values), "force": _values}).map(
        lambda body: json.dumps(body).encode()
    ),
)


@bad_inputs
@given(body=_bodies, token=st.binary(max_size=40).filter(lambda token: not {0, 10, 13} & set(token)))
def test_no_body_and_no_token_makes_it_fail(
    client: TestClient, written: list[tuple[object, ...]], body: bytes, token: bytes
) -> None:
    json_body = {b"Content-Type": b"application/json"}
    before = len(written)
    answered = client.post(ROUTE, content=body, headers={**json_body, b"X-ADMIN-TOKEN": token})
    assert answered.status_code == 403
    assert len(written) == before
    answered = client.post(ROUTE, content=body, headers={**json_body, b"X-ADMIN-TOKEN": ADMIN_TOKEN.encode()})
    assert answered.status_code in (202, 400, 422)
    assert len(written) == before + (answered.status_code == 202)
