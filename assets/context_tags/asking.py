"""One call in at most so many attempts; whatever it raises becomes an ApiFailure, or is a fault of ours."""

import json
import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from assets.context_tags.call_attempts import wait_seconds
from assets.context_tags.judgement import UnusableAnswer
from assets.context_tags.models import ContextSettings
from resources.api_failure import FAIL, RETRY, SUSPEND, ApiFailure, Verdict, verdict_of
from resources.errors import ServiceError, ServiceUnavailable, SpendingCapReached

Answer = TypeVar("Answer")

UNUSABLE = "unusable_answer"
_PASSING = frozenset(
    {"APIConnectionError", "APITimeoutError", "RequestError", "TransportError", "TimeoutException"}
)
"""How clients of such APIs name what may pass, where they share no base class."""


class FaultyCall(Exception):
    """A call raised what is no failure of a call. Only its type is told: its words may quote a text."""


class Asking:
    """Asks with the attempts of the settings (rule 14). Thread-safe; `stop` ends all further attempts.

    `wait` gets seconds; `clock` gives seconds that only grow, and must be the one of the deadlines.
    """

    def __init__(
        self,
        settings: ContextSettings,
        wait: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._wait = wait
        self.clock = clock
        self._stopped = threading.Event()

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def stop(self) -> None:
        """No attempt begins any more."""
        self._stopped.set()

    def deadline(self) -> float:
        """Until when what is claimed now may be called for: a worker that takes over must find us quiet."""
        return self.clock() + 0.8 * self._settings.processing_expiry_seconds

    def ask(self, call: Callable[[], Answer], ends_at: float) -> Answer:
        """What the call gives. No attempt begins after `ends_at`.

        Raises ApiFailure once it is given up, FaultyCall and our own ServiceErrors at once.
        """
        failure = ApiFailure(Verdict(RETRY), "out_of_time", "its claim runs out")
        for attempt in range(1, self._settings.attempts + 1):
            if self.is_stopped or self.clock() >= ends_at:
                break
            try:
                return call()
            except Exception as error:
                failure = failure_of(error)
            is_unusable = failure.code == UNUSABLE
            if failure.verdict.effect != RETRY and not is_unusable:
                break
            if attempt < self._settings.attempts and not (is_unusable or self.is_stopped):
                self._wait(self._seconds_after(attempt, failure))
        raise failure from None

    def _seconds_after(self, attempt: int, failure: ApiFailure) -> float:
        most = self._settings.retry_most_seconds
        base = self._settings.retry_base_seconds
        asked_for = min(failure.retry_after_seconds or 0.0, most)
        return max(asked_for, wait_seconds(attempt, base, most, random.random))


def failure_of(error: Exception) -> ApiFailure:
    """Who must act on it. Its own words are dropped where we did not write them: they may quote a text.

    Clients of other makers are known by what their errors share: a status, the system's or the JSON parser's
    class, or a name that says time-out or connection. Raises FaultyCall where it is none of these.
    """
    if isinstance(error, ApiFailure):
        return error
    name = type(error).__name__
    if isinstance(error, UnusableAnswer):
        return ApiFailure(Verdict(FAIL), UNUSABLE, "the answer cannot be used")
    if isinstance(error, SpendingCapReached):
        return ApiFailure(Verdict(SUSPEND, "BUDGET"), "spending_cap", str(error))
    if isinstance(error, ServiceUnavailable):
        return ApiFailure(Verdict(RETRY), "unavailable", name)
    if isinstance(error, ServiceError):
        raise error
    # Before the class: some clients derive all that they raise from OSError.
    if (status := _status(error)) is not None:
        code, type_ = (_word(getattr(error, attribute, None)) for attribute in ("code", "type"))
        # Below 400 the provider did not refuse: what it sent could not be read.
        verdict = verdict_of(status, code, type_) if status >= 400 else Verdict(RETRY)
        return ApiFailure(verdict, f"status_{status}", name, status)
    is_passing = isinstance(error, (OSError, json.JSONDecodeError))
    if is_passing or any(one.__name__ in _PASSING for one in type(error).__mro__):
        return ApiFailure(Verdict(RETRY), "unavailable", name)
    raise FaultyCall(f"a call raised {name}, which is no failure of a call") from None


def _status(error: Exception) -> int | None:
    for holder in (error, getattr(error, "response", None)):
        status = getattr(holder, "status_code", None)
        if isinstance(status, int) and not isinstance(status, bool):
            return status
    return None


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None
