"""What Ctrl-C and SIGTERM do while services are being started or stopped."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """Turns the first signal into an exception and ignores those after it.

    Within `with interruption:` the first SIGINT raises KeyboardInterrupt, the first SIGTERM or
    SIGHUP raises SystemExit(128 + signal); whoever catches it cleans up, and an impatient second
    Ctrl-C cannot break that off. May be entered again while it is entered. Outside the main
    thread, where Python allows no handlers, it does nothing.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._holding = 0
        self._pending: int | None = None
        self._seen = False
        self._previous: dict[int, object] = {}

    def __enter__(self) -> "Interruption":
        self._depth += 1
        if self._depth == 1 and threading.current_thread() is threading.main_thread():
            self._seen, self._pending = False, None
            for number in _SIGNALS:
                # Ignored by whoever started us (nohup, a background job of a script): keep it so.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            while self._previous:
                number, handler = self._previous.popitem()
                signal.signal(number, handler)  # type: ignore[arg-type]

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._seen:
            return
        self._seen = True
        if self._holding:
            self._pending = number
        else:
            _raise(number)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within it the first signal waits: its exception is raised when the block is over."""
        with self:
            self._holding += 1
            try:
                yield
            finally:
                self._holding -= 1
            pending, self._pending = self._pending, self._pending if self._holding else None
        if pending is not None and not self._holding:
            _raise(pending)


def _raise(number: int) -> None:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)
