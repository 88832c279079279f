"""`granary costs | quote | why | rehearse`: what the person on call asks at a shell.

A subcommand is a module of its own with `add_to(subparsers)`, which sets `func`: the parsed arguments in, the
exit code out. What is heavy is imported inside `func`, so that --help answers at once.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from operations import costs_command, quote_command, rehearse_command, why_command

COMMANDS = (costs_command, quote_command, why_command, rehearse_command)

DONE, NOTHING_FOUND, NOT_POSSIBLE, INTERRUPTED = 0, 1, 2, 130
"""Exit codes. NOT_POSSIBLE: a setting, a service or the command line itself, told in a line on stderr."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code, after the answer stands on stdout or the reason on stderr."""
    parser = argparse.ArgumentParser(prog="granary", description="What the person on call asks.")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_to(subparsers)
    try:
        parsed = parser.parse_args(arguments)
        code = int(parsed.func(parsed))
        sys.stdout.flush()
    except SystemExit as end:  # --help, or a command line that is none
        return int(end.code or 0)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `| head` has read enough; nothing may be written at exit any more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception as error:
        reason = _told(error)
        if reason is None:
            raise
        print(reason, file=sys.stderr)
        return NOT_POSSIBLE
    return code


def run() -> None:
    """The script `granary`."""
    sys.exit(main())


def _told(error: Exception) -> str | None:
    """What to do about a setting or a service, None where the error is a fault of ours."""
    import psycopg

    from orchestration.settings import SettingsError
    from resources.errors import ServiceError

    if isinstance(error, SettingsError | ServiceError):
        return str(error)
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.InvalidSchemaName):
        return "the database at DATABASE_URL was not migrated: run `python -m migrations.upgrade`"
    if isinstance(error, psycopg.OperationalError):
        return f"Postgres at DATABASE_URL was lost ({type(error).__name__}): see that it runs, and ask again"
    return None
