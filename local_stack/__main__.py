"""`python -m local_stack up | down | status | clean`: the embedded services of the project."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from local_stack.errors import StackError
from local_stack.processes import PROJECT
from local_stack.stack import EXTERNAL, RUNNING, ServiceStatus, Stack


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 1 after saying on stderr what is wrong, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m local_stack", description="The embedded services.")
    parser.add_argument("--root", type=Path, default=PROJECT / ".local", help="where they keep their data")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (run, summary) in _COMMANDS.items():
        commands.add_parser(name, help=summary).set_defaults(run=run)
    parsed = parser.parse_args(arguments)
    try:
        return int(parsed.run(Stack(parsed.root)))
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def up(stack: Stack) -> int:
    """Starts what is not running and says where it is."""
    for service in stack.start():
        print(_line(service))
    print(f"\n. {stack.root / 'env'}    leads psql, aws, mongosh and dg to them\npython -m local_stack down")
    return 0


def down(stack: Stack) -> int:
    """Stops whatever runs."""
    stopped = stack.stop()
    print(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")
    return 0


def status(stack: Stack) -> int:
    """A table of the services; 1 if one of them does not run."""
    services = stack.status()
    for service in services:
        print(_line(service))
    return 0 if all(service.state in (RUNNING, EXTERNAL) for service in services) else 1


def clean(stack: Stack) -> int:
    """Stops the services and deletes their data."""
    stack.remove_data()
    print(f"removed the local data in {stack.root}")
    return 0


def _line(service: ServiceStatus) -> str:
    what = f"{service.seconds:.1f} s" if service.seconds is not None else service.state
    pid = f"pid {service.pid}" if service.pid else ""
    return f"{service.name:<16} {service.address:<50} {what:<14} {pid}".rstrip()


_COMMANDS = {
    "up": (up, "start the services in the background"),
    "down": (down, "stop them; their data stay"),
    "status": (status, "say which of them run; exit code 1 if one does not"),
    "clean": (clean, "stop them and delete their data"),
}


if __name__ == "__main__":
    sys.exit(main())
