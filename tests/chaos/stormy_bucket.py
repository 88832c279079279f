"""A proxy in front of the bucket: thirty in a hundred answers are faults that pass."""

import random

from tests.integration.raw_files.faulty_bucket import Fault, FaultyBucket

_FAULTS: dict[Fault, float] = {
    Fault.SLOW_DOWN: 0.05,
    Fault.INTERNAL_ERROR: 0.05,
    Fault.TOO_MANY_REQUESTS: 0.04,
    Fault.REQUEST_TIMEOUT: 0.02,
    Fault.WEB_PAGE: 0.02,
    Fault.EMPTY_ANSWER: 0.02,
    Fault.BROKEN_XML: 0.02,
    Fault.DROPPED: 0.03,
    Fault.TRUNCATED_BODY: 0.04,
    Fault.STALLED_BODY: 0.005,
    Fault.HANG: 0.005,
}


class StormyBucket(FaultyBucket):
    """Between the runs and the bucket; shows faults by chance from `blow` to `calm`."""

    def __init__(self, target_url: str) -> None:
        self.shown = 0
        self._draw: random.Random | None = None
        super().__init__(target_url)
        # A run that is killed leaves its connections in the middle of an answer.
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]

    def blow(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def calm(self) -> None:
        self._draw = None

    def fault_of(self, method: str, path: str) -> Fault | None:
        super().fault_of(method, path)
        draw = self._draw
        if draw is None:
            return None
        (fault,) = draw.choices([*_FAULTS, None], [*_FAULTS.values(), 1 - sum(_FAULTS.values())])
        self.shown += fault is not None
        return fault
