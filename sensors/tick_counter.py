"""Counts a sensor's ticks in its cursor: a tick that is evaluated twice asks for the same run keys."""

import re
import time

import dagster as dg

_COUNT = re.compile(r"[0-9]{1,15}")


def next_tick(context: dg.SensorEvaluationContext) -> int:
    """The number of this tick among those that asked for runs, from 1."""
    cursor = context.cursor or "0"
    # One that somebody set by hand: the clock is ahead of every count, so that no run key comes again.
    tick = (int(cursor) if _COUNT.fullmatch(cursor) else int(time.time())) + 1
    context.update_cursor(str(tick))
    return tick
