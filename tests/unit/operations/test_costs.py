"""What the table of costs says of days, of the cap and of how long it lasts."""

from datetime import date, datetime
from decimal import Decimal

import pytest

from operations.costs import Costs, DayTotal, ModelDay, OpenBatches

TODAY, YESTERDAY = date(2026, 11, 24), date(2026, 11, 23)
NOON = datetime(2026, 11, 24, 12)


def a_day(day: date, usd: str, pipeline: str = "economy_news") -> ModelDay:
    return ModelDay(day, pipeline, "gpt-4o-mini", 10, 20_000, 5_000, 3_000, Decimal(usd))


def costs(
    *spent: ModelDay, reserved: str = "0", now: datetime = NOON, batches: tuple[OpenBatches, ...] = ()
) -> Costs:
    """As the store reads them: a row a day beside those of the models."""
    totals = [
        DayTotal(
            day,
            sum((one.usd for one in spent if one.day == day), Decimal(0)),
            Decimal(reserved) if day == now.date() else Decimal(0),
        )
        for day in sorted({one.day for one in spent} | {now.date()}, reverse=True)
    ]
    return Costs(now, 14, spent, totals, batches)


def last_line(some: Costs, cap: str | None = "5") -> str:
    return some.lines(None if cap is None else Decimal(cap))[-1]


def test_each_day_has_a_total_where_more_than_one_model_was_asked() -> None:
    lines = costs(a_day(TODAY, "0.5"), a_day(TODAY, "1.25", "recipes"), a_day(YESTERDAY, "2")).lines(None)
    assert lines[1].split() == [
        "2026-11-24",
        "economy_news",
        "gpt-4o-mini",
        "10",
        "20,000",
        "5,000",
        "3,000",
        "0.5000",
    ]
    assert lines[3].split() == ["2026-11-24", "total", "20", "40,000", "10,000", "6,000", "1.75"]
    assert lines[4].split()[-1] == "2.00"
    assert not any("total" in line for line in lines[4:])


def test_days_without_a_call_lower_the_average_and_the_running_day_does_not_count() -> None:
    assert costs(a_day(date(2026, 11, 20), "4"), a_day(TODAY, "9")).average_usd == Decimal(1)
    assert costs(a_day(TODAY, "9")).average_usd is None


@pytest.mark.parametrize(
    ("spent", "reserved", "cap", "told"),
    [
        ("1", "0", "5", "lasts beyond midnight"),
        ("4", "0", "5", "reached at about 15:00 KST"),
        ("4", "0.5", "5", "reached at about 13:30 KST"),
        ("4", "1", "5", "the cap is reached"),
        ("4", "3", "5", "the cap is reached"),
        ("4", "0", "0", "no call is made"),
        ("4", "0", None, "nothing caps today"),
    ],
)
def test_how_long_the_cap_lasts_is_told_by_todays_pace(
    spent: str, reserved: str, cap: str | None, told: str
) -> None:
    assert told in last_line(costs(a_day(TODAY, spent), reserved=reserved), cap)


def test_soon_after_midnight_an_average_day_is_the_pace() -> None:
    early = costs(a_day(YESTERDAY, "240"), a_day(TODAY, "1"), now=datetime(2026, 11, 24, 0, 5))
    assert "reached at about 00:29 KST" in last_line(early)


def test_open_batches_stand_with_what_they_may_cost() -> None:
    some = costs(batches=(OpenBatches("recipes", "gpt-4o-mini", YESTERDAY, 2, Decimal("0.75")),))
    told = "\n".join(some.lines(Decimal(5)))
    assert "no model was asked in the last 14 days" in told
    assert "in 2 open batches of recipes (gpt-4o-mini, planned 2026-11-23): up to 0.7500 USD reserved" in told


def test_a_program_gets_money_as_text_and_days_as_dates() -> None:
    told = costs(a_day(TODAY, "0.00012345")).as_json(None)
    assert told["cap_usd"] is None
    assert told["spent"][0]["usd"] == "0.00012345"
    assert told["spent"][0]["day"] == "2026-11-24"
    assert told["asked_at"] == "2026-11-24T12:00:00+09:00"
