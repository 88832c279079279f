"""`granary why KIND ID`: what happened to one item, what it waits for, who acts, when it is due, its cost."""

import argparse
import json
import sys
from typing import Any

KINDS = ("article", "context", "member", "raw-file", "recipe")


def add_to(subparsers: Any) -> None:
    """Makes `why` a subcommand."""
    parser = subparsers.add_parser(
        "why", help="what happened to one item, and what it waits for", description=__doc__
    )
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument(
        "id",
        help="article: address, oid/aid or id; raw-file: its key; recipe: source id or job id; else the id",
    )
    parser.add_argument("--json", action="store_true", help="for a program")
    parser.set_defaults(func=show)


def show(arguments: argparse.Namespace) -> int:
    """Prints the history; 1 after saying what was looked for where nothing is known of it."""
    from contextlib import nullcontext

    from operations.surroundings import database, recipes_database, settings_now
    from operations.why import looked_for, why

    settings = settings_now()
    with (
        database() as connection,
        recipes_database(settings) if arguments.kind == "recipe" else nullcontext() as db,
    ):
        history = why(arguments.kind, arguments.id, connection, db, settings)
    if history is None:
        print(looked_for(arguments.kind, arguments.id), file=sys.stderr)
        return 1
    if arguments.json:
        answer = {"kind": arguments.kind, "id": arguments.id, **history.as_json()}
        print(json.dumps(answer, ensure_ascii=False, indent=2))
    else:
        print("\n".join(history.lines()))
    return 0
