"""The site and a connection on the evening of one day, for the tests of the crawl."""

from collections.abc import Callable

import psycopg
import pytest

from tests.integration.economy_news.crawling import EVENING
from tests.integration.stand_ins import StandIn


@pytest.fixture
def news(site: StandIn) -> StandIn:
    """The site on the evening of DAY."""
    site.post("clock", now=EVENING)
    return site


@pytest.fixture
def now(connect: Callable[..., psycopg.Connection]) -> psycopg.Connection:
    """A connection whose clock stands on the evening of DAY, so that its crawl is the live one."""
    return connect(at=EVENING)
