"""Connections to MongoDB (MONGODB_URI): one client at a time, opened when used. Knows no collection."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from resources.errors import ServiceNotConfigured, ServiceUnavailable

if TYPE_CHECKING:
    from pymongo.database import Database

HOW_TO_START = "start the local stack with `make up` and load its addresses with `. .local/env`"
SELECTION_SECONDS = 5
"""How long a server is looked for, at the start and whenever one is lost."""
ANSWER_SECONDS = 60

_NO_ACCESS = frozenset({13, 18, 8000})
"""Unauthorized, AuthenticationFailed, and what Atlas says for both."""


class MongoResource(dg.ConfigurableResource):
    """The database of the recipes' job records."""

    uri: str = Field(
        default="", description="Empty: MONGODB_URI is read from the environment when a run needs it."
    )
    database: str = Field(default="granary", description="MONGODB_DATABASE.")

    @property
    def is_configured(self) -> bool:
        """Whether there is an address; nothing is asked."""
        return bool(self._address())

    def _address(self) -> str:
        return self.uri or os.environ.get("MONGODB_URI", "").strip()

    @contextmanager
    def connect(self) -> Iterator["Database[dict[str, Any]]"]:
        """The database, with aware times. It has answered once.

        Raises ServiceNotConfigured without an address or access, ServiceUnavailable where nothing answers,
        at the start and from within the body.
        """
        from pymongo import MongoClient

        # At DEBUG it writes whole commands, rows and all.
        logging.getLogger("pymongo").setLevel(logging.INFO)
        uri = self._address()
        if not uri:
            raise ServiceNotConfigured(f"MONGODB_URI is not set: {HOW_TO_START}, or name your own MongoDB")
        # Anything else is taken for the name of a host, and looked for.
        if not uri.startswith(("mongodb://", "mongodb+srv://")):
            raise _no_address()
        with mongo_failures():
            try:
                client: MongoClient[dict[str, Any]] = MongoClient(
                    uri,
                    tz_aware=True,
                    appname="granary",
                    serverSelectionTimeoutMS=SELECTION_SECONDS * 1000,
                    connectTimeoutMS=SELECTION_SECONDS * 1000,
                    socketTimeoutMS=ANSWER_SECONDS * 1000,
                )
            except (ValueError, TypeError):  # their messages quote the address
                raise _no_address() from None
            with client:
                client.admin.command("ping")
                yield client[self.database]


@contextmanager
def mongo_failures() -> Iterator[None]:
    """Turns the driver's failures to connect, select and authenticate into ours; no message has the address.

    Others, such as a duplicate key, pass.
    """
    from pymongo.errors import (
        ConfigurationError,
        ConnectionFailure,
        CursorNotFound,
        InvalidName,
        OperationFailure,
    )

    try:
        yield
    # AutoReconnect, NetworkTimeout, ServerSelectionTimeoutError; a restarted server knows no cursor any more.
    except (ConnectionFailure, CursorNotFound) as error:
        raise ServiceUnavailable(
            f"MongoDB at MONGODB_URI does not answer ({type(error).__name__}): {HOW_TO_START}"
        ) from None
    except ConfigurationError:
        raise _no_address() from None
    except InvalidName:
        raise ServiceNotConfigured(
            "MONGODB_DATABASE is no name of a database: letters, digits, - and _, 63 bytes at most"
        ) from None
    except OperationFailure as error:
        if error.code not in _NO_ACCESS:
            raise
        raise ServiceNotConfigured(
            "MongoDB refuses the user of MONGODB_URI: set a user and password that may read and write "
            "MONGODB_DATABASE"
        ) from None


def _no_address() -> ServiceNotConfigured:
    return ServiceNotConfigured(
        "MONGODB_URI is no usable MongoDB address; allowed: mongodb://user:password@host:port/ "
        "and mongodb+srv://user:password@host/"
    )
