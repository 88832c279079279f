"""`python -m local_stack up | down | status | demo | dev | clean`: the project on one machine."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from local_stack.errors import StackError
from local_stack.migrate import migrate
from local_stack.processes import PROJECT
from local_stack.stack import EXTERNAL, RUNNING, ServiceStatus, Stack


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0, or 1 after saying on stderr what is wrong, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m local_stack", description="The project on one machine.")
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
    _check_settings()
    services = stack.start()
    try:
        if "postgres" not in stack.external():  # a database of your own is migrated when you say so
            migrate(stack)
    except StackError:
        stack.stop([service.name for service in services if service.seconds is not None])
        raise
    for service in services:
        print(_line(service))
    env = Path(".local/env") if stack.root.parent == Path.cwd() else stack.root / "env"
    print(f"\n. {env}    leads psql, aws, mongosh and dg to them")
    print("make down       stops them; their data stays")
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


def demo(stack: Stack) -> int:
    """Runs every pipeline once and judges the result."""
    from local_stack.demo import demo as run_demo

    _check_settings()
    return run_demo(stack.root)


def dev(stack: Stack) -> int:
    """Everything on, until Ctrl-C."""
    from local_stack.dev import dev as run_dev

    _check_settings()
    return run_dev(stack.root)


def _check_settings() -> None:
    """Raises StackError for a setting with a wrong value, before anything is started."""
    from datetime import datetime

    from orchestration.schedules import SEOUL
    from orchestration.settings import SettingsError, settings_from_environment
    from resources.errors import ServiceNotConfigured
    from resources.postgres import check_database_url

    try:
        settings_from_environment(datetime.now(SEOUL).date())
        if os.environ.get("DATABASE_URL"):
            check_database_url(os.environ["DATABASE_URL"])
    except (SettingsError, ServiceNotConfigured) as error:
        raise StackError(str(error)) from None


def _line(service: ServiceStatus) -> str:
    what = f"{service.seconds:.1f} s" if service.seconds is not None else service.state
    pid = f"pid {service.pid}" if service.pid else ""
    return f"{service.name:<16} {service.address:<50} {what:<14} {pid}".rstrip()


_COMMANDS = {
    "up": (up, "start the services in the background"),
    "down": (down, "stop them; their data stay"),
    "status": (status, "say which of them run; exit code 1 if one does not"),
    "demo": (demo, "run every pipeline once on demo data and judge the result"),
    "dev": (dev, "services, daemon and UI with schedules and sensors on, until Ctrl-C"),
    "clean": (clean, "stop them and delete their data"),
}


if __name__ == "__main__":
    sys.exit(main())
