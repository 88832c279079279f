"""How many inputs a property is tried on: 500; GRANARY_BAD_INPUTS=10000 for the long round."""

import os

import pytest
from hypothesis import HealthCheck, settings


def how_many(usual: int, variable: str = "GRANARY_BAD_INPUTS") -> int:
    """The variable, or `usual` where it is not set; whatever is no number above 0 ends the tests."""
    asked = os.environ.get(variable, "").strip() or str(usual)
    if not (asked.isdecimal() and int(asked)):
        pytest.exit(f"{variable} is {asked!r}: set it to a number above 0, as 10000", returncode=4)
    return int(asked)


bad_inputs = settings(
    max_examples=how_many(500),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
)
