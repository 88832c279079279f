"""When a failed job is tried again."""

from assets.economy_news.retry_times import RetryTimes

ATTEMPTS = range(1, 8)


def test_five_retries_wait_twice_as_long_each_and_then_they_are_spent() -> None:
    delays = [RetryTimes().delay_seconds(attempt, None) for attempt in ATTEMPTS]
    assert delays == [30, 60, 120, 240, 480, None, None]


def test_no_delay_of_our_own_is_longer_than_the_maximum() -> None:
    times = RetryTimes(most=7)
    assert [times.delay_seconds(attempt, None) for attempt in ATTEMPTS] == [30, 60, 120, 240, 480, 600, 600]


def test_a_retry_after_wins_whether_it_is_longer_or_shorter() -> None:
    times = RetryTimes()
    assert times.delay_seconds(1, 3_600) == 3_600
    assert times.delay_seconds(5, 2.5) == 2.5
    assert times.delay_seconds(3, 0) == 0


def test_a_retry_after_gives_no_retry_beyond_the_last() -> None:
    assert RetryTimes().delay_seconds(6, 10) is None


def test_the_settings_decide_how_often_and_how_long() -> None:
    times = RetryTimes(most=3, base_seconds=5, maximum_seconds=12)
    assert [times.delay_seconds(attempt, None) for attempt in ATTEMPTS][:4] == [5, 10, 12, None]


def test_without_retries_the_first_failure_is_the_last() -> None:
    assert RetryTimes(most=0).delay_seconds(1, None) is None
