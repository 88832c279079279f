"""raw_files' routes: ask for a partition by hand (admin), read a day's report (internal)."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Path
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from api.answers import admin_router, answers, internal_router
from api.database import Connections
from assets.raw_files import partition_store

FIRST_DAY = date(2026, 1, 1)

admin_routes = admin_router("/api/v1")
internal_routes = internal_router("/api/v1")


def _iso_day(value: object) -> date:
    # pydantic's own date also takes numbers and times.
    if isinstance(value, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise PydanticCustomError("date_as_year_month_day", "a date of the calendar, as YYYY-MM-DD")


def today_utc() -> date:
    """The running day, UTC."""
    return datetime.now(UTC).date()


IsoDay = Annotated[date, BeforeValidator(_iso_day)]


class PartitionRequest(BaseModel):
    """Which partition shall run; `force`: also files that were processed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    country: Annotated[str, Field(pattern=r"^[a-z]{2}$")]
    category: Annotated[str, Field(pattern=r"^[a-z]{1,40}$")]
    date: IsoDay
    force: bool = False


class PartitionRequested(BaseModel):
    """The request's row, and the key of the partition that a sensor will start."""

    request_id: int
    partition: str


@admin_routes.post("/seeds/orchestrate", status_code=202, responses=answers(400, 422))
def request_partition(
    asked: PartitionRequest, pool: Connections, today: Annotated[date, Depends(today_utc)]
) -> PartitionRequested:
    """Writes the request down; nothing is started here. Days from 2026-01-01 to tomorrow, UTC."""
    last_day = today + timedelta(days=1)
    if not FIRST_DAY <= asked.date <= last_day:
        limits = {"ge": FIRST_DAY.isoformat(), "le": last_day.isoformat()}
        raise RequestValidationError([{"type": "date_out_of_range", "loc": ("body", "date"), "ctx": limits}])
    with pool.connection() as connection:
        request_id = partition_store.request_partition(
            connection, asked.country, asked.category, asked.date, asked.force
        )
    return PartitionRequested(
        request_id=request_id, partition=f"{asked.date.isoformat()}|{asked.country}/{asked.category}"
    )


@internal_routes.get("/raw/daily/{date}", responses=answers(404, 422), response_model=dict[str, Any])
def daily_report(day: Annotated[IsoDay, Path(alias="date")], pool: Connections) -> JSONResponse:
    """The day's summary as it was last stored; 404 where there is none."""
    with pool.connection() as connection:
        report = partition_store.daily_report(connection, day)
    if report is None:
        raise HTTPException(404, "no report of this day")
    return JSONResponse(report)
