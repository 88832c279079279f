"""The error table of assets/economy_news/README.md, and the Retry-After header."""

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from resources.api_failure import (
    FAIL,
    RETRY,
    SUSPEND,
    Verdict,
    read_http_date,
    retry_after_seconds,
    verdict_of,
)
from tests.bad_inputs import bad_inputs

QUOTA, AUTH, MODEL = (Verdict(SUSPEND, reason) for reason in ("QUOTA", "AUTH", "MODEL"))
AGAIN, NEVER = Verdict(RETRY), Verdict(FAIL)
NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)

QUOTA_CODES = (
    "insufficient_quota",
    "insufficient_balance",
    "credit_balance_exhausted",
    "billing_not_active",
    "billing_hard_limit_reached",
)


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (402, QUOTA),
        (401, AUTH),
        (403, AUTH),
        (None, AGAIN),
        (408, AGAIN),
        (409, AGAIN),
        (429, AGAIN),
        (500, AGAIN),
        (502, AGAIN),
        (503, AGAIN),
        (504, AGAIN),
        (529, AGAIN),
        (599, AGAIN),
        (400, NEVER),
        (404, Verdict(SUSPEND, "MODEL")),
        (413, NEVER),
        (422, NEVER),
    ],
)
def test_a_status_without_a_telling_code_decides_alone(status: int | None, verdict: Verdict) -> None:
    assert verdict_of(status, None, None) == verdict
    assert verdict_of(status, "some_new_code", "some_new_type") == verdict


@pytest.mark.parametrize("status", [None, 200, 400, 401, 402, 403, 404, 409, 422, 429, 500, 503])
@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        *((code, QUOTA) for code in QUOTA_CODES),
        ("invalid_api_key", AUTH),
        ("unsupported_country_region_territory", AUTH),
        ("model_not_found", MODEL),
        ("context_length_exceeded", NEVER),
        ("content_filter", NEVER),
        ("content_policy_violation", NEVER),
    ],
)
def test_a_telling_code_or_type_goes_before_any_status(
    status: int | None, name: str, verdict: Verdict
) -> None:
    assert verdict_of(status, name, None) == verdict
    assert verdict_of(status, None, name) == verdict
    assert verdict_of(status, "some_new_code", name) == verdict


def test_of_two_telling_names_the_code_counts() -> None:
    assert verdict_of(429, "model_not_found", "insufficient_quota") == MODEL


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0),
        ("30", 30),
        (" 30 ", 30),
        ("1.5", 1.5),
        ("3600", 3_600),
        ("3601", 3_600),
        ("999999999999", 3_600),
        ("Mon, 30 Nov 2026 12:00:45 GMT", 45),
        ("Mon, 30 Nov 2026 21:00:45 +0900", 45),
        ("Mon, 30 Nov 2026 12:00:45 -0000", 45),
        ("Mon, 30 Nov 2026 12:00:00 GMT", 0),
        ("Tue, 30 Nov 2027 12:00:00 GMT", 3_600),
    ],
)
def test_a_retry_after_is_read_in_both_forms_and_is_an_hour_at_most(header: str, seconds: float) -> None:
    assert retry_after_seconds(header, NOW) == seconds


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        " ",
        "soon",
        "-1",
        "nan",
        "inf",
        "-inf",
        "1e999",
        "9" * 400,
        "30 seconds",
        "Mon, 30 Nov 2026 11:59:59 GMT",
        "Mon, 99 Nov 2026 12:00:00 GMT",
        "Mon, 30 Nov 99999 12:00:00 GMT",
        "Mon, 30 Nov 2026 12:00:00 +9999",
        "Fri, 31 Dec 9999 23:59:59 -2359",
        "Mon, 01 Jan 0001 00:00:00 +2359",
        "Mon, 30 Nov 2026 12:00:00 +99999999999999999999",
        "Mon, 99999999999999999999 Nov 2026 12:00:00 GMT",
        "한 시간 뒤",
    ],
)
def test_an_absurd_retry_after_is_as_good_as_none_or_an_hour(header: str | None) -> None:
    assert retry_after_seconds(header, NOW) in (None, 3_600)


DATES = st.from_regex(
    r"[A-Za-z]{3}, [0-9]{1,25} (Nov|Feb|\w{3}) [0-9]{1,5} "
    r"[0-9]{1,25}:[0-9]{2}:[0-9]{2} ([+-][0-9]{4,25}|GMT)",
    fullmatch=True,
)


@bad_inputs
@given(header=st.text(max_size=40) | DATES, date=st.text(max_size=40) | DATES)
@example(header="Mon, 30 Nov 2026 12:00:00 +99999999999999999999", date="")
@example(header="Fri, 31 Dec 9999 23:59:59 -2359", date="Mon, 01 Jan 0001 00:00:00 +2359")
def test_no_header_makes_the_reader_fail(header: str, date: str) -> None:
    for now in (NOW, read_http_date(date)):
        seconds = retry_after_seconds(header, now)
        assert seconds is None or 0 <= seconds <= 3_600


def test_without_a_given_time_a_date_is_compared_with_this_machines_clock() -> None:
    assert retry_after_seconds("Mon, 30 Nov 2009 12:00:00 GMT") is None
    assert retry_after_seconds("Fri, 30 Nov 2999 12:00:00 GMT") == 3_600
