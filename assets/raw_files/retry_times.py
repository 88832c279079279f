"""When a partition that failed is tried again (assets/raw_files/README.md). Everything in UTC."""

from datetime import UTC, date, datetime, time, timedelta

RETRY_DELAYS = (timedelta(minutes=5), timedelta(minutes=10), timedelta(minutes=20))
PASS_HOURS = (0, 12)
"""The daily pass and the supplementary one."""

ONE_DAY = timedelta(days=1)


def next_attempt(failures: int, now: datetime) -> datetime | None:
    """When to try again after `failures` attempts in a row failed; None: none did, or the retries are spent.

    The wait counts from `now`, the end of the failed attempt.
    """
    if not 1 <= failures <= len(RETRY_DELAYS):
        return None
    return now + RETRY_DELAYS[failures - 1]


def next_pass(day: date, after: datetime, catch_up_days: int = 7) -> datetime | None:
    """The first scheduled pass later than `after` that looks at `day`; None: it is left to a request.

    A pass on a date looks at the day before it and at the `catch_up_days` before that. So it is the
    supplementary pass for what fails in the morning, and the next daily one for what fails after noon. A
    pass that starts at `after` itself does not count: it may have listed already.
    """
    last = day + ONE_DAY * (1 + catch_up_days)
    start = max(day + ONE_DAY, after.astimezone(UTC).date())
    passes = (
        datetime.combine(on, time(hour), UTC)
        for on in (start, start + ONE_DAY)
        if on <= last
        for hour in PASS_HOURS
    )
    return next((at for at in passes if at > after), None)
