"""What Celery workers run: `celery -A orchestration.run_launchers.celery_worker worker -Q crawl,default`.

The code location is imported once, before the workers' processes are forked, so that a run starts at once.
"""

import os
from collections.abc import Sequence
from urllib.parse import urlsplit

from celery import Celery
from celery.signals import worker_init
from dagster_celery.make_app import make_app
from dagster_celery.tasks import create_execute_job_task, create_resume_job_task

BROKERS = ("redis", "rediss", "amqp", "amqps")
RESULTS = ("redis", "rediss")


def address(name: str, schemes: Sequence[str]) -> str:
    """The variable's address. Exits, without showing it, where there is none: it may hold a password."""
    given = os.environ.get(name, "").strip()
    if is_address(given, schemes):
        return given
    what = f"is no address of {' or '.join(schemes)}" if given else "is not set"
    raise SystemExit(
        f"{name} {what}: give it what the daemon has, as redis://:password@host:6379/0"
        " (in a password, # / ? : and @ are written as %23 %2F %3F %3A %40)"
    )


def is_address(text: str, schemes: Sequence[str]) -> bool:
    """Whether it has one of the schemes, a host, a port that is one and, for Redis, a database's number."""
    try:
        parts = urlsplit(text)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    database = parts.path.strip("/")
    is_redis = parts.scheme.startswith("redis")
    return parts.scheme in schemes and has_host and (not is_redis or not database or database.isdecimal())


app: Celery = make_app(  # type: ignore[no-untyped-call]
    {
        "broker": address("CELERY_BROKER_URL", BROKERS),
        "backend": address("CELERY_RESULT_URL", RESULTS),
        "config_source": {
            # Early: with late ones a run whose worker was killed would be handed on without anybody noticing.
            "task_acks_late": False,
            "task_track_started": True,
            "worker_prefetch_multiplier": 1,
            "worker_max_tasks_per_child": 200,
            "result_expires": 86_400,
            "broker_connection_retry_on_startup": True,
        },
    }
)
execute_job = create_execute_job_task(app)
resume_job = create_resume_job_task(app)


@worker_init.connect  # type: ignore[untyped-decorator]
def import_what_runs_need(**_: object) -> None:
    """Imports the definitions in the parent, for all that are forked from it."""
    import orchestration.definitions  # noqa: F401
