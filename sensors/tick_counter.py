"""Counts a sensor's ticks in its cursor: a tick that is evaluated twice asks for the same run keys."""

import dagster as dg


def next_tick(context: dg.SensorEvaluationContext) -> int:
    """The number of this tick among those that asked for runs, from 1."""
    tick = int(context.cursor or 0) + 1
    context.update_cursor(str(tick))
    return tick
