"""What is wrong, from recorded facts alone: each alarm with what to do and where the runbook says more.

Messages hold names and numbers of ours, no texts. raw_files' own five and those of gates and layouts are
raised where they are noticed; failed runs by the sensor that hears of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from operations.alarm_facts import SEOUL, Facts

NEWS_SILENCE = timedelta(hours=3)
NEWS_FROM_HOUR = 7
RECIPES_FETCH_HOUR = 11
RECIPES_MISSED_HOUR = 13
MOST_WAITING = timedelta(minutes=10)
MOST_PROCESSING = timedelta(minutes=20)
"""Of a context's stage; the other leases are over ten minutes after they ran out."""
MOST_LEASES_LOST = 2
LEAST_REQUESTS = 20
MOST_ERRORS_PERCENT = 5
LATE_AFTER = timedelta(minutes=10)
FAILED_TICKS = 3
STUCK_AFTER = timedelta(hours=26)
NEARLY_SPENT_PERCENT = 80

_STATES = ("nothing_new", "waiting", "running_long", "leases_lost", "batch_stuck", "schedule_late")
_OTHERS = ("run", "spending", "api_errors", "sensor_failing", "schedule_failing", "facts_unreadable")
OURS = frozenset((*_STATES, *_OTHERS))
"""What the causes that are looked at begin with, before the colon."""


@dataclass(frozen=True)
class Alarm:
    """`cause` is the alert's cause; `message` says what is wrong and what to do."""

    cause: str
    message: str


def standing_alarms(facts: Facts) -> list[Alarm]:
    """Everything that is wrong now."""
    return [
        *_spending(facts),
        *_nothing_new(facts),
        *_waiting(facts),
        *_leases(facts),
        *_api_errors(facts),
        *_schedules_and_sensors(facts),
        *_batches(facts),
        *_unreadable(facts),
    ]


def causes_over(facts: Facts, alarms: Iterable[Alarm]) -> list[str]:
    """Of the causes that stand, those that are looked at here and are over; what cannot be told now stays."""
    raised = {alarm.cause for alarm in alarms}
    return [
        cause
        for cause, day in sorted(facts.standing.items())
        if cause.partition(":")[0] in OURS and cause not in raised and _is_over(facts, cause, day)
    ]


def asks_for_recipes(facts: Facts) -> bool:
    """Whether it matters now that the day's recipes are fetched: it is looked up where it does."""
    is_time = facts.hour >= RECIPES_MISSED_HOUR or "nothing_new:recipes" in facts.standing
    return is_time and _fetches_by_itself(facts)


def _is_over(facts: Facts, cause: str, day: date) -> bool:
    kind = cause.partition(":")[0]
    if any(cause == name or cause.startswith(f"{name}:") for name in facts.unreadable):
        return False
    if kind == "run":
        return cause in facts.recovered
    if kind == "spending":  # money that comes back on the same day does not end it
        return day < facts.today
    if cause == "nothing_new:economy_news":
        return not _crawls_by_itself(facts) or not _is_silent(facts)
    if cause == "nothing_new:recipes":
        return not _fetches_by_itself(facts) or facts.recipes_fetched_today
    return True


def _spending(facts: Facts) -> Iterable[Alarm]:
    cap = facts.watched.spending_cap_usd
    if not cap:  # none, or nothing may be spent at all
        return
    used = f"{facts.used_usd:.4f} of {cap} USD (DAILY_SPENDING_CAP_USD) are spent or reserved today"
    if facts.is_spent or facts.used_usd >= cap:
        yield Alarm(
            "spending:100",
            f"{used}: nothing more is asked until midnight in Seoul. `granary costs` shows for what. To go "
            "on today, raise the cap and run the pipeline's job …_resume_suspended. "
            f"{_see('The quota is spent')}",
        )
    elif facts.used_usd * 100 >= cap * NEARLY_SPENT_PERCENT:
        yield Alarm(
            "spending:80",
            f"{used}. `granary costs` shows for what; at the cap, what waits is asked after midnight in "
            f"Seoul. {_see('The quota is spent')}",
        )


def _nothing_new(facts: Facts) -> Iterable[Alarm]:
    earliest = datetime(facts.today.year, facts.today.month, facts.today.day, NEWS_FROM_HOUR, tzinfo=SEOUL)
    if _crawls_by_itself(facts) and _is_silent(facts) and facts.now >= earliest + NEWS_SILENCE:
        last = facts.newest_article_at
        yield Alarm(
            "nothing_new:economy_news",
            f"No article was stored for {_hours(NEWS_SILENCE)} (the last {_at(last) if last else 'never'}). "
            "Look at the last runs of economy_news_crawl and at a section list in a browser. "
            f"{_see('The site changed its layout')}",
        )
    if _fetches_by_itself(facts) and not facts.recipes_fetched_today and facts.hour >= RECIPES_MISSED_HOUR:
        yield Alarm(
            "nothing_new:recipes",
            f"The recipes of {facts.today} are not fetched at {RECIPES_MISSED_HOUR}:00 KST. Look at the runs "
            f"of recipes_fetch and launch it for the partition {facts.today}. "
            f"{_see('A day has to be done again')}",
        )


def _crawls_by_itself(facts: Facts) -> bool:
    since = facts.on_since.get("economy_news_every_five_minutes")
    is_expected = facts.watched.crawls and "economy_news" in facts.watched.pipelines
    return is_expected and since is not None and facts.now - since >= NEWS_SILENCE


def _is_silent(facts: Facts) -> bool:
    return facts.newest_article_at is None or facts.now - facts.newest_article_at >= NEWS_SILENCE


def _fetches_by_itself(facts: Facts) -> bool:
    since = facts.on_since.get("recipes_every_day")
    due = datetime(facts.today.year, facts.today.month, facts.today.day, RECIPES_FETCH_HOUR, tzinfo=SEOUL)
    is_expected = facts.watched.fetches_recipes and "recipes" in facts.watched.pipelines
    return is_expected and since is not None and since <= due


def _waiting(facts: Facts) -> Iterable[Alarm]:
    what = {"context_tags": "context posted", "recommendations": "member due"}
    for pipeline, since in sorted(facts.waiting.items()):
        if pipeline in facts.watched.pipelines and facts.now - since > MOST_WAITING:
            yield Alarm(
                f"waiting:{pipeline}",
                f"A {what.get(pipeline, 'piece of work')} waits since {_at(since)}, over "
                f"{_minutes(MOST_WAITING)}. The sensor of {pipeline} says why it starts no run; see whether "
                f"a gate is shut, then whether runs queue. {_see('The backlog grows')}",
            )


def _leases(facts: Facts) -> Iterable[Alarm]:
    for pipeline, lost in sorted(facts.leases_lost.items()):
        if lost > MOST_LEASES_LOST:
            yield Alarm(
                f"leases_lost:{pipeline}",
                f"{lost:.0f} leases of {pipeline} ran out under their runs in ten minutes: runs die, or are "
                "slower than AI_LEASE_MINUTES. Look at the runs that failed lately and at the machine's "
                f"memory. {_see('The backlog grows')}",
            )
    for pipeline, number in sorted(facts.running_long.items()):
        if number:
            yield Alarm(
                f"running_long:{pipeline}",
                f"{number} of {pipeline} are held by runs that died long ago, and no run takes them over. "
                "See that the pipeline's sensor is on and its runs are not stuck in the queue. "
                f"{_see('The backlog grows')}",
            )


def _api_errors(facts: Facts) -> Iterable[Alarm]:
    if facts.requests >= LEAST_REQUESTS and facts.errors * 100 > facts.requests * MOST_ERRORS_PERCENT:
        yield Alarm(
            "api_errors",
            f"{facts.errors:.0f} of {facts.requests:.0f} requests to the AI provider failed in ten minutes "
            f"(alarm above {MOST_ERRORS_PERCENT} %). openai_api_requests_total in /metrics has the codes; "
            f"each item is tried again by itself. {_see('The key was revoked')}",
        )


def _schedules_and_sensors(facts: Facts) -> Iterable[Alarm]:
    for late in facts.late_schedules:
        last = f"the last at {_at(late.newest_tick_at)}" if late.newest_tick_at else "it never had one"
        yield Alarm(
            f"schedule_late:{late.name}",
            f"The schedule {late.name} had no tick at {_at(late.due_at)} ({last}). See that the Dagster "
            f"daemon runs and loads the code location. {_see('The backlog grows')}",
        )
    for kind, names in (("sensor", facts.failing_sensors), ("schedule", facts.failing_schedules)):
        for name in names:
            yield Alarm(
                f"{kind}_failing:{name}",
                f"The last {FAILED_TICKS} ticks of the {kind} {name} failed; its page in the UI has the "
                f"error. Mostly a service that it looks at is away. {_see('The backlog grows')}",
            )


def _batches(facts: Facts) -> Iterable[Alarm]:
    for pipeline, since in sorted(facts.open_batches.items()):
        if facts.now - since > STUCK_AFTER:
            yield Alarm(
                f"batch_stuck:{pipeline}",
                f"A batch of {pipeline} planned at {_at(since)} is not taken in after {_hours(STUCK_AFTER)}; "
                f"the provider promises 24. {_see('A batch is stuck')}",
            )


def _unreadable(facts: Facts) -> Iterable[Alarm]:
    for name in sorted(facts.unreadable):
        yield Alarm(
            f"facts_unreadable:{name}",
            f"What the alarm {name} is decided from cannot be read; it stays as it is. Run `python -m "
            "migrations.upgrade`, see that DATABASE_URL's user may read every table, and the log of "
            f"alarms_looked_at for the error. {_see('The database was restored from a backup')}",
        )


def _see(heading: str) -> str:
    return f'docs/runbook.md, "{heading}".'


def _at(moment: datetime) -> str:
    return f"{moment.astimezone(SEOUL):%Y-%m-%d %H:%M} KST"


def _hours(span: timedelta) -> str:
    return f"{span // timedelta(hours=1)} hours"


def _minutes(span: timedelta) -> str:
    return f"{span // timedelta(minutes=1)} minutes"
