"""The message of every morning."""

from datetime import date
from decimal import Decimal

from operations.heartbeat import DayFigures, heartbeat_message

FIGURES = DayFigures(date(2026, 11, 29), 120, 30, 44, 12, Decimal("1.23456"), 3)


def test_it_tells_yesterday_in_figures() -> None:
    assert heartbeat_message(FIGURES, failed_runs=2, standing=[], untold=0).splitlines() == [
        "2026-11-29: 120 articles, 30 recipes, 44 contexts, 12 members with recommendations, 1.2346 USD.",
        "Failed: 2 runs, 3 AI jobs.",
        "No alarm stands.",
    ]


def test_it_names_the_first_ten_alarms_and_what_no_channel_took() -> None:
    standing = [f"run:job_{number:02}" for number in range(12)]
    *_, alarms, delivery = heartbeat_message(FIGURES, 0, standing, untold=4).splitlines()
    assert alarms.endswith("run:job_09 and 2 more.")
    assert delivery.startswith("4 messages could not be delivered")


def test_it_comes_where_the_figures_could_not_be_read() -> None:
    assert heartbeat_message(None, failed_runs=2, standing=[], untold=0).splitlines() == [
        "Yesterday's figures could not be read.",
        "Failed: 2 runs.",
        "No alarm stands.",
    ]
