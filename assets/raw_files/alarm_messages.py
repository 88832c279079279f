"""Sends what the alarms say, once per cause and day, and clears what no longer stands."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import psycopg

from assets.raw_files import alarms, partition_store
from assets.raw_files.alarms import Alarm
from assets.raw_files.facts import PartitionFact
from resources.alerts import AlertResource

OF_A_DAY = ("failure_rate", "daily_processing_failure")
OF_NOW = ("no_new_files", "partition_failing", "schedule_late")
NAMES = (*OF_NOW, *OF_A_DAY)
_LOOK_BACK = timedelta(days=2)


@dataclass(frozen=True)
class Standing:
    """The alarms as of a day; `is_newest`: the latest day that a pass looked for."""

    day: date
    is_newest: bool
    alarms: list[Alarm]

    def of(self, name: str) -> list[Alarm]:
        return [alarm for alarm in self.alarms if alarm.name == name]


def standing_on(
    connection: psycopg.Connection,
    day: date,
    facts: Collection[PartitionFact],
    on_since: datetime | None,
) -> Standing:
    """All five alarms over what is recorded; `facts` are of the day and the two before it.

    `on_since`: since when the schedules are on, None while they are off.
    """
    first = day - timedelta(days=2)
    files = partition_store.files_by_day(connection, first, day)
    scanned = partition_store.scanned_days(connection, first, day)
    of_day = [fact for fact in facts if fact.day == day]
    found = [
        alarms.no_new_files(files, scanned, day),
        *alarms.failure_rate(of_day),
        *alarms.partition_failing(facts, day),
        late(connection, on_since),
        *alarms.daily_processing_failure(of_day),
    ]
    newest = partition_store.newest_pass_day(connection)
    return Standing(day, newest is None or day >= newest, [alarm for alarm in found if alarm])


def late(connection: psycopg.Connection, on_since: datetime | None) -> Alarm | None:
    """Whether a pass is late whose time has come since the schedules are on (None: they are off)."""
    if on_since is None:
        return None
    now = partition_store.now(connection)
    passes = [
        one
        for one in partition_store.pass_facts(connection, now - _LOOK_BACK)
        if one.scheduled_at >= on_since
    ]
    slots = [slot for slot in alarms.expected_slots(now, _LOOK_BACK) if slot >= on_since]
    return alarms.schedule_late(passes, slots, now)


def tell(connection: psycopg.Connection, alerts: AlertResource, standing: Standing) -> None:
    """One message per cause and day, one when it clears. An old day speaks only of itself."""
    names = NAMES if standing.is_newest else OF_A_DAY
    now_standing = {alarm.cause: alarm for alarm in standing.alarms if alarm.name in names}
    for alarm in now_standing.values():
        alerts.raise_(connection, alarm.cause, alarm.message)
    for name in names:
        for cause in alerts.standing(connection, f"raw_files:{name}"):
            of_this_day = name in OF_NOW or cause.endswith(f":{standing.day}")
            if of_this_day and cause not in now_standing:
                alerts.clear(connection, cause)


def tell_of_lateness(
    connection: psycopg.Connection, alerts: AlertResource, on_since: datetime | None
) -> None:
    """The one alarm that no pass would tell of when none comes."""
    alarm = late(connection, on_since)
    if alarm:
        alerts.raise_(connection, alarm.cause, alarm.message)
    else:
        alerts.clear(connection, "raw_files:schedule_late")
