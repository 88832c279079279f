"""Service errors as Dagster failures: who tries again.

Infrastructure that is away is tried again by the step, a permanent error ends it at once with its message,
anything else is a fault of ours and fails it. A leaf.

Not a RetryPolicy on the asset: with one, Dagster also tries a step again that a person has canceled, and
every error of ours three times.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
import psycopg

from resources.errors import ServiceError, ServiceUnavailable

# For infrastructure inside a step only (Postgres unreachable). Dagster's exponential delay is
# (2^n − 1) × delay and a sleep inside the run, so it is for short waits: 10, 30, 70 s.
INFRASTRUCTURE_RETRIES = dg.RetryPolicy(
    max_retries=3, delay=10, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS
)


@contextmanager
def failures_by_owner(context: dg.AssetExecutionContext) -> Iterator[None]:
    """Asks for a later try where a service is away, and fails the step for good where a person must act."""
    try:
        yield
    except (ServiceUnavailable, psycopg.OperationalError) as error:
        raise dg.RetryRequested(
            max_retries=INFRASTRUCTURE_RETRIES.max_retries,
            seconds_to_wait=INFRASTRUCTURE_RETRIES.calculate_delay(context.retry_number + 1),
        ) from error
    except ServiceError as error:
        raise dg.Failure(description=str(error), allow_retries=False) from error
