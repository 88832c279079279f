"""Times as pages write them."""

from datetime import datetime, timedelta

import pytest

from assets.economy_news.korean_dates import SEOUL, parse_timestamp, parse_written_time


@pytest.mark.parametrize(
    ("text", "hour", "minute"),
    [
        ("2026.03.02. 오후 12:22", 12, 22),
        ("2026.03.02. 오전 12:05", 0, 5),
        ("2026.03.02. 오후 8:28", 20, 28),
        ("2026.03.02. 오전 11:59", 11, 59),
        ("2026.03.02. 오후 11:59", 23, 59),
        ("2026.03.02. 오전 0:05", 0, 5),
        ("2026.03.02. 오후 0:22", 12, 22),
        ("2026.3.2. 오후 1:00", 13, 0),
        ("기사입력 2026.03.02. 오후 1:00 최종수정 2026.03.03. 오후 2:00", 13, 0),
        ("2026.03.02 13:00", 13, 0),
        ("2026-03-02 00:00", 0, 0),
    ],
)
def test_a_written_time_is_read_with_its_half_of_the_day(text: str, hour: int, minute: int) -> None:
    assert parse_written_time(text) == datetime(2026, 3, 2, hour, minute, tzinfo=SEOUL)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "어제 오후 3:00",
        "2026.03.02.",
        "2026.02.30. 오후 3:00",
        "2026.03.02. 오전 13:00",
        "2026.03.02. 오후 24:00",
        "2026.03.02. 25:00",
        "2026.03.02. 12:60",
        "0001.01.01. 오전 1:00",
        "9999.12.31. 오전 1:00",
        "２０２６.03.02. 오후 3:00",
    ],
)
def test_what_is_no_written_time_is_none(text: str) -> None:
    assert parse_written_time(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-02 12:22:31",
        "2026-03-02T12:22:31",
        "2026-03-02T12:22:31+09:00",
        "2026-03-02T12:22:31+0900",
        "2026-03-02 12:22:31 +0900",
        "2026-03-02T03:22:31Z",
        " 2026-03-02T03:22:31.000+00:00 ",
        "2026-03-01T22:22:31-05:00",
    ],
)
def test_a_timestamp_is_an_instant_in_seoul(text: str) -> None:
    moment = parse_timestamp(text)
    assert moment == datetime(2026, 3, 2, 12, 22, 31, tzinfo=SEOUL)
    assert moment is not None and moment.utcoffset() == timedelta(hours=9)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-03-02",
        "20260302",
        "2026-W10-1",
        "2026-13-02 12:00:00",
        "2026-03-02 24:01:00",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-12:00",
        "2026-03-02T12:00:00+99:99",
        "1772421751",
    ],
)
def test_what_is_no_timestamp_is_none(text: str) -> None:
    assert parse_timestamp(text) is None
