"""Fetch: the stand-in of the open API over HTTP, job records in the real MongoDB."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo.database import Database

from assets.recipes import fetch, fetch_store
from assets.recipes.fetch import SOURCE, Fetched
from assets.recipes.job_store import JOBS
from assets.recipes.open_api import OpenApiError, OpenApiRefused, OpenApiUnavailable, OpenApiUnreadable
from assets.recipes.recipe_row import raw_hash
from assets.recipes.statuses import Status
from local_stack.recipe_api.answers import MESSAGES
from local_stack.recipe_api.recipes import recipe_rows
from local_stack.recipe_api.state import KEY
from resources import recipe_api as recipe_api_module
from resources.errors import FetchFailed, ServiceError, ServiceNotConfigured
from resources.recipe_api import RecipeApiResource
from tests.integration.recipes.job_records import DAY, NOON, after_noon
from tests.integration.stand_ins import StandIn, recipe_api

Mongo = Database[dict[str, Any]]

ALL = len(recipe_rows())
NEXT_DAY = "2026-03-03"
CODES = sorted(set(MESSAGES) - {"INFO-000", "INFO-200"})


@pytest.fixture(scope="module")
def served() -> Iterator[StandIn]:
    with recipe_api() as stand_in:
        yield stand_in


@pytest.fixture
def api(served: StandIn) -> StandIn:
    """The open API as after its start."""
    served.post("reset")
    return served


def resource(api: StandIn, key: str = KEY, timeout_ms: int = 10_000) -> RecipeApiResource:
    return RecipeApiResource(base_url=api.url, api_key=key, timeout_ms=timeout_ms)


def fetch_some(
    db: Mongo, api: StandIn, limit: int, run_id: str = DAY, sweep: bool = False, **settings: Any
) -> Fetched:
    return fetch.fetch(db, resource(api, **settings), run_id, limit, NOON, sweep)


def asked(api: StandIn) -> list[str]:
    """The ranges that were asked for."""
    return ["/".join(seen["path"].split("/")[-2:]) for seen in api.get("requests")["requests"]]


def stored(db: Mongo) -> list[str]:
    return sorted((job["source_id"] for job in db[JOBS].find({}, {"source_id": 1})), key=int)


def first_ids(count: int) -> list[str]:
    return sorted((row["RCP_SEQ"] for row in recipe_rows()[:count]), key=int)


def job_of(db: Mongo, source_id: str) -> dict[str, Any]:
    found = db[JOBS].find_one({"source_id": source_id})
    assert found is not None
    return found


def test_recipes_become_jobs_with_their_row_as_it_came(db: Mongo, api: StandIn) -> None:
    assert fetch_some(db, api, 10) == Fetched(received=10, new=10, calls=1)
    row = recipe_rows()[0]
    job = job_of(db, row["RCP_SEQ"])
    assert (job["source"], job["run_id"], job["status"]) == (SOURCE, DAY, Status.FETCHED)
    assert (job["raw_data"], job["raw_hash"]) == (row, raw_hash(row))
    assert (job["fetched_at"], job["retry_count"]) == (NOON, 0)


def test_the_next_fetch_goes_on_behind_the_cursor(db: Mongo, api: StandIn) -> None:
    for _ in range(3):
        fetch_some(db, api, 20)
    assert asked(api) == ["1/20", "21/40", "41/60"]
    assert stored(db) == first_ids(60)
    assert fetch_store.cursor(db, SOURCE) == 60


def test_more_than_a_call_may_bring_is_asked_for_in_pages(
    db: Mongo, api: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "MOST_ROWS_A_CALL", 30)
    assert fetch_some(db, api, 65) == Fetched(received=65, new=65, calls=3)
    assert asked(api) == ["1/30", "31/60", "61/65"]


def test_a_short_page_moves_the_cursor_by_what_it_had(db: Mongo, api: StandIn) -> None:
    assert fetch_some(db, api, 100).received == ALL
    assert fetch_store.cursor(db, SOURCE) == ALL
    api.post("edit", seq="9001", fields={"RCP_NM": "새로 온 두부찜"})
    assert fetch_some(db, api, 100, NEXT_DAY) == Fetched(received=1, new=1, calls=1)
    assert asked(api)[1] == f"{ALL + 1}/{ALL + 100}"
    assert fetch_store.cursor(db, SOURCE) == ALL + 1


def test_a_page_that_was_cut_short_is_gone_on_with(db: Mongo, api: StandIn) -> None:
    api.post("fault", rows=7, times=1)
    fetch_some(db, api, 20)
    fetch_some(db, api, 20)
    assert asked(api) == ["1/20", "8/27"]
    assert stored(db) == first_ids(27)


def test_no_data_leaves_the_cursor(db: Mongo, api: StandIn) -> None:
    fetch_some(db, api, 100)
    assert fetch_some(db, api, 100) == Fetched(calls=1)
    assert fetch_store.cursor(db, SOURCE) == ALL


def test_an_empty_page_leaves_the_cursor(db: Mongo, api: StandIn) -> None:
    api.post("fault", rows=0)
    assert fetch_some(db, api, 20) == Fetched(calls=1)
    assert fetch_store.cursor(db, SOURCE) == 0


def test_nothing_wanted_asks_nothing(db: Mongo, api: StandIn) -> None:
    assert fetch_some(db, api, 0) == Fetched()
    assert asked(api) == []


def test_more_rows_than_were_asked_for_do_not_move_the_cursor_further(db: Mongo, api: StandIn) -> None:
    body = RecipeApiResource(base_url=api.url, api_key=KEY).get(f"{api.url}/api/{KEY}/COOKRCP01/json/41/60")
    api.post("fault", body=body.decode(), times=1)
    assert fetch_some(db, api, 5).new == 20
    assert fetch_store.cursor(db, SOURCE) == 5


def test_a_row_without_an_id_or_without_end_is_counted_and_passed(db: Mongo, api: StandIn) -> None:
    rows = recipe_rows()
    endless = {"RCP_PARTS_DTLS": "두부 " * 100_000}
    api.post("edit", seq=rows[1]["RCP_SEQ"], fields=endless)
    assert fetch_some(db, api, 3) == Fetched(received=3, new=2, unusable=1, calls=1)
    assert rows[1]["RCP_SEQ"] not in stored(db)
    assert fetch_store.cursor(db, SOURCE) == 3

    api.post("fault", body='{"RESULT": {"CODE": "INFO-000"}, "row": [{"RCP_NM": "이름뿐"}]}', times=1)
    assert fetch_some(db, api, 1) == Fetched(received=1, unusable=1, calls=1)
    assert fetch_store.cursor(db, SOURCE) == 4


def test_the_sweep_looks_again_at_what_lies_before_the_cursor(
    db: Mongo, api: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "MOST_ROWS_A_CALL", 30)
    fetch_some(db, api, 40)
    again = fetch_some(db, api, 10, NEXT_DAY, sweep=True)
    assert asked(api)[2:] == ["1/30", "31/40", "41/50"]
    assert again == Fetched(received=50, new=10, unchanged=40, calls=3)
    assert fetch_store.cursor(db, SOURCE) == 50


def test_an_unchanged_recipe_costs_nothing_in_a_sweep(db: Mongo, api: StandIn) -> None:
    fetch_some(db, api, 5)
    db[JOBS].update_many({}, {"$set": {"status": Status.EMBED_RETRIEVED.value, "retry_count": 1}})
    before = list(db[JOBS].find().sort("_id"))
    fetch_some(db, api, 0, NEXT_DAY, sweep=True)
    assert list(db[JOBS].find().sort("_id")) == before


def test_an_edited_recipe_is_restarted_under_the_day_of_the_sweep(db: Mongo, api: StandIn) -> None:
    fetch_some(db, api, 5)
    worked = {
        "status": Status.EMBED_SUBMITTED.value,
        "retry_count": 2,
        "retrieved_data": {"title": "두부찜"},
        "parse_batch_id": "batch_1",
        "embed_batch_id": "batch_2",
        "persisted_at": NOON,
    }
    db[JOBS].update_many({}, {"$set": worked})
    seq = recipe_rows()[2]["RCP_SEQ"]
    api.post("edit", seq=seq, fields={"RCP_NA_TIP": "소금을 줄인다."})
    assert fetch_some(db, api, 0, NEXT_DAY, sweep=True) == Fetched(
        received=5, changed=1, unchanged=4, calls=1
    )
    job = job_of(db, seq)
    assert (job["status"], job["run_id"], job["retry_count"]) == (Status.FETCHED, NEXT_DAY, 0)
    assert job["raw_data"]["RCP_NA_TIP"] == "소금을 줄인다."
    assert not {"retrieved_data", "parse_batch_id", "embed_batch_id", "persisted_at"} & set(job)


def test_a_forced_fetch_starts_anew_whatever_it_meets(db: Mongo, api: StandIn) -> None:
    fetch_some(db, api, 5)
    db[JOBS].update_many({}, {"$set": {"status": Status.EMBED_RETRIEVED.value}})
    again = fetch.fetch(db, resource(api), NEXT_DAY, 3, NOON, sweep=True, force=True)
    assert again == Fetched(received=8, new=3, changed=5, calls=2)
    started = db[JOBS].find({}, {"status": 1, "run_id": 1, "_id": 0})
    assert [*started] == [{"status": Status.FETCHED, "run_id": NEXT_DAY}] * 8


def test_a_sweep_of_a_source_that_shrank_ends(db: Mongo, api: StandIn) -> None:
    fetch_store.move_cursor(db, SOURCE, ALL + 50)
    assert fetch_some(db, api, 10, sweep=True).received == ALL
    assert asked(api) == [
        f"1/{ALL + 50}",
        f"{ALL + 1}/{ALL + 50}",
        f"{ALL + 51}/{ALL + 60}",
    ]
    assert fetch_store.cursor(db, SOURCE) == ALL + 50


def kind_of(code: str) -> type[OpenApiError]:
    return OpenApiUnavailable if code in ("INFO-300", "ERROR-500", "ERROR-601") else OpenApiRefused


@pytest.mark.parametrize("code", CODES)
def test_an_error_code_stops_with_its_class_in_any_shape(db: Mongo, api: StandIn, code: str) -> None:
    for shape in ("wrapped", "bare", "xml"):
        api.post("fault", code=code, shape=shape, times=1)
        with pytest.raises(kind_of(code), match=f"^{code}: ") as caught:
            fetch_some(db, api, 20)
        assert KEY not in str(caught.value)
        assert getattr(caught.value, "retry_later", False) is (code == "INFO-300")
    assert (stored(db), fetch_store.cursor(db, SOURCE)) == ([], 0)


def test_no_data_may_come_without_the_wrapper(db: Mongo, api: StandIn) -> None:
    api.post("fault", code="INFO-200", shape="bare")
    assert fetch_some(db, api, 20) == Fetched(calls=1)


FAULTS: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"code": "INFO-100", "shape": "html"}, OpenApiRefused),
    ({"code": "INFO-400", "shape": "gateway_xml"}, OpenApiRefused),
    ({"code": "INFO-300", "shape": "gateway_xml"}, OpenApiUnavailable),
    ({"code": "ERROR-500", "shape": "html"}, OpenApiUnreadable),
    ({"body": "<html><body>점검 중입니다.</body></html>"}, OpenApiUnreadable),
    ({"body": ""}, OpenApiUnreadable),
    ({"body": "{}"}, OpenApiUnreadable),
    ({"status": 500}, FetchFailed),
    ({"status": 404, "body": "없음"}, FetchFailed),
    ({"redirect": "http://127.0.0.1:1/elsewhere"}, FetchFailed),
    ({"truncate_bytes": 400}, FetchFailed),
    ({"truncate_bytes": 400, "headers": {"content-length": None}}, FetchFailed),
    ({"drop_connection": True}, FetchFailed),
    ({"hang": True}, FetchFailed),
]


@pytest.mark.parametrize(("fault", "failure"), FAULTS, ids=[str(fault) for fault, _ in FAULTS])
def test_what_was_stored_before_a_failure_stays_and_the_next_fetch_goes_on_there(
    db: Mongo,
    api: StandIn,
    fault: dict[str, Any],
    failure: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(fetch, "MOST_ROWS_A_CALL", 10)
    api.post("fault", **fault, skip=2, times=1)
    with pytest.raises(failure) as caught:
        fetch_some(db, api, 40, timeout_ms=300 if "hang" in fault else 10_000)
    assert isinstance(caught.value, ServiceError | OpenApiError)
    assert KEY not in f"{caught.value!r}" + caplog.text
    assert stored(db) == first_ids(20)
    assert fetch_store.cursor(db, SOURCE) == 20

    assert fetch_some(db, api, 40, NEXT_DAY).new == 40
    assert stored(db) == first_ids(60)


def test_a_failure_in_the_sweep_leaves_the_cursor(db: Mongo, api: StandIn) -> None:
    fetch_some(db, api, 20)
    api.post("fault", status=503)
    with pytest.raises(FetchFailed):
        fetch_some(db, api, 20, sweep=True)
    assert fetch_store.cursor(db, SOURCE) == 20


def test_a_run_that_dies_between_the_store_and_the_cursor_is_repeated_without_doubles(
    db: Mongo, api: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException):
        pass

    def die(*_: Any, **__: Any) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(fetch_store, "move_cursor", die)
        with pytest.raises(Died):
            fetch_some(db, api, 20)
    assert fetch_some(db, api, 20) == Fetched(received=20, unchanged=20, calls=1)
    assert (stored(db), fetch_store.cursor(db, SOURCE)) == (first_ids(20), 20)


def test_two_fetches_at_once_skip_nothing(db: Mongo, api: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    real = fetch_store.store_fetched

    def another_one_first(*arguments: Any) -> Any:
        monkeypatch.setattr(fetch_store, "store_fetched", real)
        assert fetch_some(db, api, 20).new == 20
        return real(*arguments)

    monkeypatch.setattr(fetch_store, "store_fetched", another_one_first)
    assert fetch_some(db, api, 10) == Fetched(received=10, unchanged=10, calls=1)
    assert fetch_store.cursor(db, SOURCE) == 20
    assert stored(db) == first_ids(20)


def test_a_wrong_key_is_refused_without_being_shown(
    db: Mongo, api: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(OpenApiRefused, match="RECIPE_API_KEY") as caught:
        fetch_some(db, api, 5, key="wrong/key with spaces")
    assert "wrong" not in str(caught.value) + caplog.text


def test_the_key_is_in_no_log_of_a_fetch_that_succeeds(
    db: Mongo, api: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert fetch_some(db, api, 5).new == 5
    assert KEY not in caplog.text


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "http://no such host", "ftp://127.0.0.1"])
def test_an_address_where_nothing_answers_is_a_failure_that_may_pass(db: Mongo, address: str) -> None:
    with pytest.raises(FetchFailed) as caught:
        fetch.fetch(db, RecipeApiResource(base_url=address, api_key=KEY), DAY, 5, NOON)
    assert KEY not in str(caught.value)


def test_a_body_without_end_is_given_up(db: Mongo, api: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe_api_module, "MAX_ANSWER_BYTES", 1_000_000)
    api.post("fault", gzip_bomb_bytes=2_000_000)
    with pytest.raises(FetchFailed, match="does not end"):
        fetch_some(db, api, 5)


def test_the_key_may_come_from_the_environment(
    db: Mongo, api: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECIPE_API_KEY", KEY)
    assert fetch_some(db, api, 5, key="").new == 5


@pytest.mark.parametrize(
    ("address", "setting"), [("", "RECIPE_API_BASE_URL"), ("http://a", "RECIPE_API_KEY")]
)
def test_a_missing_setting_is_named(
    db: Mongo, monkeypatch: pytest.MonkeyPatch, address: str, setting: str
) -> None:
    monkeypatch.delenv("RECIPE_API_KEY", raising=False)
    with pytest.raises(ServiceNotConfigured, match=setting):
        fetch.fetch(db, RecipeApiResource(base_url=address), DAY, 5, after_noon(1))


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("http://api.example:80/base/", "http://api.example:80"),
        ("https://api.example", "https://api.example"),
    ],
)
def test_the_origin_is_scheme_and_host(address: str, origin: str) -> None:
    assert RecipeApiResource(base_url=address).origin == origin
