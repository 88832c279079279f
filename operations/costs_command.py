"""`granary costs`: what the models cost, by day, pipeline and model."""

import argparse
import json
from typing import Any

MOST_DAYS = 366


def add_to(subparsers: Any) -> None:
    """Makes `costs` a subcommand."""
    parser = subparsers.add_parser(
        "costs", help="what the models cost by day, pipeline and model", description=__doc__
    )
    parser.add_argument("--days", type=_days, default=14, help="how many days (Asia/Seoul) up to today: 14")
    parser.add_argument("--json", action="store_true", help="for a program: money as text, in USD")
    parser.set_defaults(func=show)


def show(arguments: argparse.Namespace) -> int:
    """Prints the table; 0 also where nothing was spent."""
    from operations.costs_store import read_costs
    from operations.surroundings import database, settings_now

    cap = settings_now().daily_spending_cap_usd
    with database() as connection:
        costs = read_costs(connection, arguments.days)
    if arguments.json:
        print(json.dumps(costs.as_json(cap), indent=2))
    else:
        print("\n".join(costs.lines(cap)))
    return 0


def _days(text: str) -> int:
    days = int(text) if text.isdecimal() else 0
    if not 1 <= days <= MOST_DAYS:
        raise argparse.ArgumentTypeError(f"must be between 1 and {MOST_DAYS}")
    return days
