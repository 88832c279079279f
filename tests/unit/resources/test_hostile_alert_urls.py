"""Generated addresses of alarms: understood, or told by their number alone; no message of ours holds one."""

import logging
import os
from datetime import date
from typing import Any
from unittest.mock import patch

import pytest
from apprise import Apprise
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from orchestration.settings import SettingsError, settings_from_environment
from resources import alert_delivery
from resources.alert_delivery import DELIVERED, FAILED, deliver
from tests.bad_inputs import bad_inputs

TOKEN = "canary-token-5b1f"
TODAY = date(2026, 11, 30)

bad_urls = settings(bad_inputs, suppress_health_check=[*HealthCheck])

SCHEMES = [
    "json",
    "jsons",
    "mailto",
    "mailtos",
    "slack",
    "discord",
    "tgram",
    "ntfy",
    "xml",
    "form",
    "mmost",
    "x",
]
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
PIECES = st.lists(
    st.sampled_from(
        [
            *("/", ":", "@", "?", "&", "=", "#", "%", "%zz", "%00", "[", "]", "[::1", ",", " ", "\t", "\n"),
            *(
                "host",
                "127.0.0.1",
                "99999",
                "-1",
                "user",
                TOKEN,
                "to=",
                "format=",
                "format=html",
                "verify=no",
            ),
            *(
                "rto=nan",
                "cto=1e999",
                "method=",
                "overflow=x",
                "tz=",
                "+h=1",
                ":" * 9,
                "x" * 300,
                "http://",
                "://",
            ),
        ]
    )
    | TEXT,
    max_size=9,
).map("".join)
URLS = st.builds("{}://{}".format, st.sampled_from(SCHEMES), PIECES) | PIECES
TOKENS = st.just(TOKEN).map("json://{}@127.0.0.1:1".format)


@bad_urls
@given(urls=st.lists(URLS | TOKENS, max_size=3))
@example(urls=[f"json://[::1:{TOKEN}"])
@example(urls=["json://host:99999"])
def test_any_addresses_are_in_force_or_refused_without_being_told(urls: list[str]) -> None:
    value = ",".join(urls)
    with patch.dict(os.environ, {"ALERT_URLS": value}, clear=True):
        try:
            taken = settings_from_environment(TODAY)
        except SettingsError as error:
            problem = str(error)
        else:
            assert all("://" in url and url == url.strip() for url in taken.alert_urls)
            assert TOKEN not in repr(taken)
            return
    assert problem.startswith("ALERT_URLS: address number ")
    assert TOKEN not in problem and len(problem) < 200


@bad_urls
@given(urls=st.lists(URLS | TOKENS, min_size=1, max_size=3))
@example(urls=[f"json://[::1:{TOKEN}"])
@example(urls=[f"mailto://{TOKEN}:x@host?rto=nan&cto=1e999"])
def test_every_address_has_an_outcome_and_none_is_told(urls: list[str]) -> None:
    told: list[str] = []
    handler = logging.Handler(logging.DEBUG)
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    # Not asked: these may name any host. That they are understood is what is looked at.
    with (
        patch.object(Apprise, "notify", lambda *_, **__: True),
        patch.dict(alert_delivery._rests_until, clear=True),
    ):
        logging.getLogger().addHandler(handler)
        try:
            outcomes = deliver(urls, "Granary: title", "body", within_seconds=5)
        finally:
            logging.getLogger().removeHandler(handler)
    assert len(outcomes) == len(urls) and set(outcomes) <= {DELIVERED, FAILED}
    assert not [message for message in told if TOKEN in message]


def test_one_that_is_not_understood_keeps_no_other_from_being_told() -> None:
    asked: list[Any] = []

    def noted(channel: Apprise, **message: Any) -> bool:
        asked.append(message)
        return True

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Apprise, "notify", noted)
        outcomes = deliver(["json://[::1", "nonsense", "json://127.0.0.1:1"], "title", "body")
    assert outcomes == [FAILED, FAILED, DELIVERED] and len(asked) == 1
