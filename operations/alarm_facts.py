"""What the alarms are decided from: plain facts of one tick, and what the settings lead one to expect."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

SEOUL = ZoneInfo("Asia/Seoul")


@dataclass(frozen=True)
class Watched:
    """What is expected to happen by itself, from the settings. USD a day; None: no cap."""

    pipelines: frozenset[str]
    crawls: bool
    fetches_recipes: bool
    spending_cap_usd: Decimal | None


@dataclass(frozen=True)
class LateSchedule:
    """A running schedule without a tick for its latest time."""

    name: str
    due_at: datetime
    newest_tick_at: datetime | None


@dataclass(frozen=True)
class Facts:
    """What a tick found. Times are aware.

    `standing`: causes that stand, with the newest day (Asia/Seoul) that they were raised on. `on_since`:
    since when each running schedule is on. `waiting`: by pipeline, since when the oldest waits.
    `running_long`: by pipeline, how many leases ran out long ago. `open_batches`: by pipeline, when the
    oldest was planned. `leases_lost`, `requests`, `errors`: in the last ten minutes. `recovered`: causes of
    runs that have succeeded since. `unreadable`: what could not be read, named as the causes that hang on it
    begin: those stay as they are.
    """

    now: datetime
    watched: Watched
    standing: Mapping[str, date] = field(default_factory=dict)
    used_usd: Decimal = Decimal(0)
    is_spent: bool = False
    newest_article_at: datetime | None = None
    on_since: Mapping[str, datetime] = field(default_factory=dict)
    recipes_fetched_today: bool = False
    waiting: Mapping[str, datetime] = field(default_factory=dict)
    running_long: Mapping[str, int] = field(default_factory=dict)
    open_batches: Mapping[str, datetime] = field(default_factory=dict)
    leases_lost: Mapping[str, float] = field(default_factory=dict)
    requests: float = 0
    errors: float = 0
    late_schedules: tuple[LateSchedule, ...] = ()
    failing_sensors: tuple[str, ...] = ()
    failing_schedules: tuple[str, ...] = ()
    recovered: frozenset[str] = frozenset()
    unreadable: frozenset[str] = frozenset()

    @property
    def today(self) -> date:
        return self.now.astimezone(SEOUL).date()

    @property
    def hour(self) -> int:
        return self.now.astimezone(SEOUL).hour
