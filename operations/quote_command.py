"""`granary quote`: what a backfill will take, before it is started."""

import argparse
import json
from typing import Any

from operations.quote_request import MODES, PIPELINES, REDOS, NotAQuestion, read_request


def add_to(subparsers: Any) -> None:
    """Makes `quote` a subcommand."""
    parser = subparsers.add_parser(
        "quote",
        help="what a backfill will take: items, calls, tokens, USD, hours, requests to hosts",
        description="What a backfill will take. Nothing is written, no call is made.",
    )
    parser.add_argument("pipeline", choices=PIPELINES)
    parser.add_argument("--from", dest="first_day", metavar="DAY", required=True, help="as 2026-11-24")
    parser.add_argument(
        "--to", dest="last_day", metavar="DAY", help="the day itself included; else --from alone"
    )
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--sections", default="", help="of economy_news, as FINANCE,STOCK; else all")
    parts.add_argument("--sources", default="", help="of raw_files, as kr/news,kr/shop; else all")
    parser.add_argument(
        "--mode",
        choices=MODES,
        default="live",
        help="how economy_news asks: at once, or in batches at half price",
    )
    parser.add_argument("--redo", choices=REDOS[1:], default="", help="results to make again; else none")
    parser.add_argument("--json", action="store_true", help="for a program: money as text, in USD")
    parser.set_defaults(func=show, refuse=parser.error)


def show(arguments: argparse.Namespace) -> int:
    """Prints the quote; 0 also where nothing is to be done."""
    from contextlib import nullcontext

    from operations.quote import quote
    from operations.surroundings import database, recipes_database, settings_now

    try:
        request = read_request(
            arguments.pipeline,
            arguments.first_day,
            arguments.last_day or arguments.first_day,
            (arguments.sections or arguments.sources).split(","),
            arguments.mode,
            arguments.redo,
        )
        settings = settings_now()
        recipes = recipes_database(settings) if request.pipeline == "recipes" else nullcontext()
        with database() as connection, recipes as mongo:
            answer = quote(connection, mongo, settings, request)
    except NotAQuestion as problem:
        arguments.refuse(str(problem))
    if arguments.json:
        print(json.dumps(answer.as_json(), indent=2, ensure_ascii=False))
    else:
        print("\n".join(answer.lines()))
    return 0
