"""How long a call waits before it is tried again within one run."""

from collections.abc import Callable


def wait_seconds(attempt: int, base: float, most: float, random: Callable[[], float]) -> float:
    """Seconds to wait after `attempt` (1, 2, …) failed: below base × 2^(attempt−1), and below `most`.

    `random` gives 0 to 1. Full jitter, since calls that failed together would otherwise come back together.
    """
    doublings = min(max(attempt - 1, 0), 60)  # A float overflows at 1,024, long after `most` was reached.
    return random() * min(most, base * 2.0**doublings)
