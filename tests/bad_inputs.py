"""How many inputs a property is tried on: 500; GRANARY_BAD_INPUTS=10000 for the long round."""

import os

from hypothesis import HealthCheck, settings

bad_inputs = settings(
    max_examples=int(os.environ.get("GRANARY_BAD_INPUTS", "500")),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
)
