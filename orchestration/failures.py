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

from orchestration.policies import INFRASTRUCTURE_RETRIES
from resources.errors import ServiceError, ServiceUnavailable


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
