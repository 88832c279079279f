"""How many histories the state machines of the pipelines try, and the clock of their sessions.

60 histories of up to 60 steps; GRANARY_MODEL_EXAMPLES=2000 for the long round.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import psycopg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.bad_inputs import how_many

histories = settings(
    max_examples=how_many(60, "GRANARY_MODEL_EXAMPLES"),
    stateful_step_count=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
)

START = datetime(2026, 3, 2, 3, tzinfo=UTC)

NUMBERS = st.integers(0, 15)

T = TypeVar("T")


def one_of(claims: Sequence[T], number: int, holds: Callable[[T], object]) -> T:
    """One of the claims that there were, counted from the newest.

    By an even number one that still holds, if there is one; by an odd number any. Left to chance, hardly any
    would hold.
    """
    held = [] if number % 2 else [one for one in claims if holds(one)]
    among = held or claims
    return among[-1 - number // 2 % len(among)]


def try_histories(new_machine: Callable[[], RuleBasedStateMachine]) -> None:
    """Runs histories, each on a new machine that begins with empty tables. Raises as the shortest does."""
    run_state_machine_as_test(new_machine, settings=histories)  # type: ignore[arg-type]


class Clock:
    """The database's clock of some sessions, which stands still but for `move`: a model knows every time."""

    def __init__(self, *sessions: psycopg.Connection) -> None:
        self._sessions = sessions
        self.now = START

    def restart(self) -> None:
        """Back to the start, for the next history."""
        self.now = START
        self.move(0)

    def move(self, seconds: float) -> None:
        """All sessions see the time so many seconds later from now on."""
        self.now += timedelta(seconds=seconds)
        for session in self._sessions:
            session.execute("SELECT set_config('granary.now', %s, false)", (self.now.isoformat(),))
