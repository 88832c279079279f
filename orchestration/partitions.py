"""Every partitions definition, and the making and reading of partition keys.

What belongs here: dimensions and keys. What does not: which of them a run takes (see `sensors/`).
A leaf: imports Dagster only. Keys are strings; a key may hold no `|`, `,`, `[` or `]`.
"""

from collections.abc import Iterable, Sequence
from datetime import date

import dagster as dg

PIPELINES = ("economy_news", "raw_files", "recipes", "context_tags", "recommendations")

# In the order of the site's own menu; a range of partitions follows this order.
SECTIONS = ("FINANCE", "STOCK", "INDUSTRY", "VENTURE", "REALESTATE", "WORLD", "LIVING", "GENERAL")

FIRST_NEWS_DAY = "2026-01-01"

RANGE_START_TAG = "dagster/asset_partition_range_start"
RANGE_END_TAG = "dagster/asset_partition_range_end"

# end_offset=1 makes the running day's partition exist: news of today belongs to today.
news_days = dg.DailyPartitionsDefinition(start_date=FIRST_NEWS_DAY, timezone="Asia/Seoul", end_offset=1)
news_sections = dg.StaticPartitionsDefinition(list(SECTIONS))
day_by_section = dg.MultiPartitionsDefinition({"day": news_days, "section": news_sections})

FIRST_RAW_DAY = "2026-01-01"

raw_days = dg.DailyPartitionsDefinition(start_date=FIRST_RAW_DAY, timezone="UTC", end_offset=1)
# Keys are `country/category`, added when first seen and never deleted.
raw_sources = dg.DynamicPartitionsDefinition(name="raw_sources")
day_by_source = dg.MultiPartitionsDefinition({"day": raw_days, "source": raw_sources})

FIRST_RECIPE_DAY = "2026-01-01"

# The day (Asia/Seoul) of the fetch: the source document's run id.
recipe_days = dg.DailyPartitionsDefinition(start_date=FIRST_RECIPE_DAY, timezone="Asia/Seoul", end_offset=1)


FIRST_CONTEXT_DAY = "2026-01-01"

# The day (UTC) on which a context was requested.
context_days = dg.DailyPartitionsDefinition(start_date=FIRST_CONTEXT_DAY, timezone="UTC", end_offset=1)

FIRST_RECOMMENDATION_DAY = "2026-01-01"

# The day (UTC) on which a member was queued.
recommendation_days = dg.DailyPartitionsDefinition(
    start_date=FIRST_RECOMMENDATION_DAY, timezone="UTC", end_offset=1
)


def raw_key(day: date, source: str) -> dg.MultiPartitionKey:
    """The partition key of a day (UTC) and source, as `2026-11-30|kr/news`."""
    return dg.MultiPartitionKey({"day": day.isoformat(), "source": source})


def read_raw_key(key: str) -> tuple[date, str]:
    """The day and source of a partition key. Raises ValueError for a key of another form."""
    day, separator, source = key.partition("|")
    if not separator or source.count("/") != 1:
        raise ValueError(f"not a day and source: {key!r}")
    return _day(day), source


def news_key(day: date, section: str) -> str:
    """The partition key of a day (Asia/Seoul) and section, as `2026-11-30|FINANCE`."""
    return f"{day.isoformat()}|{section}"


def read_news_key(key: str) -> tuple[date, str]:
    """The day and section of a partition key. Raises ValueError for a key of another form."""
    day, separator, section = key.partition("|")
    if not separator or section not in SECTIONS:
        raise ValueError(f"not a day and section: {key!r}")
    return _day(day), section


def _day(text: str) -> date:
    """As keys have it, and not as 20261130 or a week's day, which Python reads too."""
    day = date.fromisoformat(text)
    if text != day.isoformat():
        raise ValueError(f"not a day as YYYY-MM-DD: {text!r}")
    return day


def news_range_tags(day: date, sections: Iterable[str]) -> dict[str, str]:
    """The run tags that make one run take a day's span of sections, from the first to the last of them.

    A range cannot leave a section out, so what lies between is taken too. No section: ValueError.
    """
    positions = [SECTIONS.index(section) for section in sections]
    if not positions:
        raise ValueError("a range needs at least one section")
    return {
        RANGE_START_TAG: news_key(day, SECTIONS[min(positions)]),
        RANGE_END_TAG: news_key(day, SECTIONS[max(positions)]),
    }


def days_and_sections(keys: Sequence[str]) -> list[tuple[date, str]]:
    """The days and sections of the partition keys of a run, in the same order."""
    return [read_news_key(key) for key in keys]


def adjacent_sections(sections: Iterable[str]) -> list[list[str]]:
    """The sections in spans without a gap, in menu order; all eight are one span."""
    spans: list[list[str]] = []
    for position, section in sorted((SECTIONS.index(section), section) for section in set(sections)):
        if spans and SECTIONS.index(spans[-1][-1]) == position - 1:
            spans[-1].append(section)
        else:
            spans.append([section])
    return spans
