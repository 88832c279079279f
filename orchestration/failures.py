"""Service errors as Dagster failures: which of them a step may retry.

A permanent one ends the step at once with its message; a transient one is raised as it is, so that
the asset's RetryPolicy has its turn. A leaf.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from resources.errors import ServiceError, ServiceUnavailable


@contextmanager
def permanent_errors_end_the_step() -> Iterator[None]:
    """Turns every ServiceError that is not transient into Failure(allow_retries=False)."""
    try:
        yield
    except ServiceUnavailable:
        raise
    except ServiceError as error:
        raise dg.Failure(description=str(error), allow_retries=False) from error
