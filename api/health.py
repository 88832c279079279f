"""Whether the door lives and whether it is ready: `/healthz` and `/readyz`, open to everybody."""

from typing import Literal

from fastapi import Response
from pydantic import BaseModel

from api.answers import answers, open_router
from api.database import Connections
from api.errors import error_answer

open_routes = open_router()


class Alive(BaseModel):
    """The process answers."""

    status: Literal["alive"] = "alive"


class Ready(BaseModel):
    """So does its database."""

    status: Literal["ready"] = "ready"


@open_routes.get("/healthz")
async def healthz() -> Alive:
    """The process lives; nothing else is asked, so that a missing Postgres restarts nobody."""
    return Alive()


@open_routes.get("/readyz", response_model=Ready, responses=answers(503))
def readyz(pool: Connections) -> Ready | Response:
    """Postgres answers and has our schema; otherwise 503."""
    with pool.connection() as connection:
        row = connection.execute("SELECT to_regnamespace('granary') IS NOT NULL").fetchone()
    if row != (True,):
        return error_answer(503, "the database was not migrated: run `python -m migrations.upgrade`")
    return Ready()
