"""Kills this process at one of its own calls, as the kernel would; production code knows nothing of it."""

import os
import signal
from collections.abc import Callable, Iterable
from typing import Any


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def before(owner: Any, name: str, after_calls: int) -> None:
    """Dies instead of making call number `after_calls + 1`."""
    _replace(
        owner, name, lambda real, args, kwargs, made: die() if made > after_calls else real(*args, **kwargs)
    )


def after(owner: Any, name: str, after_calls: int) -> None:
    """Dies when call number `after_calls + 1` has returned."""

    def call(real: Callable[..., Any], args: Any, kwargs: Any, made: int) -> Any:
        result = real(*args, **kwargs)
        if made > after_calls:
            die()
        return result

    _replace(owner, name, call)


def at_step(steps: Iterable[tuple[Any, str]], number: int) -> None:
    """Dies at that one (from 1) of all calls of these: instead of it, or right after it where it is even."""
    made = [0]
    for owner, name in steps:
        _count(owner, name, number, made)


def _count(owner: Any, name: str, fatal: int, made: list[int]) -> None:
    real = getattr(owner, name)

    def counted(*args: Any, **kwargs: Any) -> Any:
        made[0] += 1
        is_fatal = made[0] == fatal
        if is_fatal and fatal % 2:
            die()
        result = real(*args, **kwargs)
        if is_fatal:
            die()
        return result

    setattr(owner, name, counted)


def _replace(owner: Any, name: str, call: Callable[..., Any]) -> None:
    real = getattr(owner, name)
    made = [0]

    def replaced(*args: Any, **kwargs: Any) -> Any:
        made[0] += 1
        return call(real, args, kwargs, made[0])

    setattr(owner, name, replaced)
