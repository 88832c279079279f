"""A crawled site as the tests open it, with pauses that are noted and not slept."""

from collections.abc import Iterator

import psycopg

from resources.polite_site import Politeness, PoliteSite
from tests.integration.resources.scripted_server import Script, ScriptedServer, answer
from tests.integration.stand_ins import StandIn

PATH = "/breakingnews/section/101/259?date=20260530"
PAGES = "^/breakingnews"
PATIENCE = 3.0  # a busy machine must not look like a hanging site


class Visits:
    """Opens the site with given manners; `pauses` are the seconds that would have been slept."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.pauses: list[float] = []
        self._connection = connection
        self._opened: list[PoliteSite] = []

    def __call__(
        self,
        url: str,
        *,
        interval: float = 0,
        sleep: tuple[float, float] = (0, 0),
        permission: str | None = None,
    ) -> PoliteSite:
        politeness = Politeness("crawler@example.example", PATIENCE, interval, *sleep, permission)
        self._opened.append(PoliteSite(url, politeness, self._connection, sleep=self.pauses.append))
        return self._opened[-1]

    def close(self) -> None:
        for site in self._opened:
            site.close()


def asked(site: StandIn) -> list[str]:
    """The paths that the site was asked for, in order."""
    return [request["path"] for request in site.get("requests")]


def with_robots(script: Script) -> Script:
    """A server whose robots.txt allows everything."""

    def answering(server: ScriptedServer, request: str) -> Iterator[bytes]:
        if request.startswith("GET /robots.txt"):
            return iter([answer(404)])
        return script(server, request)

    return answering
