"""The HTTP side of the open API of recipes: one call a page, with its time-out and size limit."""

import os
import time
from contextlib import closing
from urllib.parse import urlsplit

import dagster as dg
import httpx
from pydantic import Field

from resources.errors import FetchFailed, ServiceNotConfigured

MAX_ANSWER_BYTES = 50_000_000
HEADERS = {"user-agent": "granary", "accept": "*/*", "accept-encoding": "gzip, deflate"}


class RecipeApiResource(dg.ConfigurableResource):
    """The open API that the operator named. Knows no code of its answers."""

    base_url: str = Field(default="", description="RECIPE_API_BASE_URL; empty: nothing is fetched.")
    api_key: str = Field(default="", description="Empty: RECIPE_API_KEY is read when a call is made.")
    timeout_ms: int = Field(default=20_000, description="Of one request.")

    @property
    def origin(self) -> str:
        """Scheme and host: where the source's own images are."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""

    def key(self) -> str:
        """The key. Raises ServiceNotConfigured without an address or a key."""
        if not self.base_url:
            raise ServiceNotConfigured(
                "RECIPE_API_BASE_URL is not set: `make up` starts a stand-in and `. .local/env` names it"
            )
        key = self.api_key or os.environ.get("RECIPE_API_KEY", "")
        if not key:
            raise ServiceNotConfigured("RECIPE_API_KEY is not set: ask the operator of the open API for one")
        return key

    def get(self, url: str) -> bytes:
        """The body of an answer with status 200. The address holds the key, and no message shows it.

        Raises FetchFailed for another status, a time-out, no connection, or an endless body.
        """
        seconds = self.timeout_ms / 1000
        deadline = time.monotonic() + seconds
        within = {"timeout": httpx.Timeout(seconds).as_dict()}
        try:
            # No httpx.Client: it writes every address that it asks to the log, and this one holds the key.
            with (
                httpx.HTTPTransport(trust_env=False) as transport,
                closing(
                    transport.handle_request(httpx.Request("GET", url, headers=HEADERS, extensions=within))
                ) as response,
            ):
                if response.status_code != 200:
                    raise FetchFailed(f"the recipe API answered with status {response.status_code}")
                body = bytearray()
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > MAX_ANSWER_BYTES or time.monotonic() > deadline:
                        raise FetchFailed("the recipe API's answer does not end")
                return bytes(body)
        except httpx.TimeoutException:
            raise FetchFailed(f"the recipe API did not answer within {self.timeout_ms} ms") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise FetchFailed(f"the recipe API cannot be asked ({type(error).__name__})") from None
