"""Kills this process at one of its own calls, as the kernel would; production code knows nothing of it."""

import os
import signal
from collections.abc import Callable
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


def _replace(owner: Any, name: str, call: Callable[..., Any]) -> None:
    real = getattr(owner, name)
    made = [0]

    def replaced(*args: Any, **kwargs: Any) -> Any:
        made[0] += 1
        return call(real, args, kwargs, made[0])

    setattr(owner, name, replaced)
