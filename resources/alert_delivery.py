"""One message to every address of ALERT_URLS, within a time that a sensor or a run can spare.

Each address is asked once and by itself: one that hangs neither holds the others nor the caller, and is
then left alone for a while. No message of ours quotes an address, which may hold a token.
"""

import logging
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apprise import Apprise

log = logging.getLogger("granary.alerts")

WITHIN_SECONDS = 5.0
SLOW_SECONDS = 1.0
REST_SECONDS = 50.0
"""Less than the interval of the sensor that tries again, so that each of its ticks asks."""

DELIVERED, FAILED = "delivered", "failed"

_rests_until: dict[str, float] = {}


class _Attempt(threading.Thread):
    """A thread that may be left behind; it ends by the channel's own time-outs, or with the process."""

    def __init__(self, channel: "Apprise", title: str, body: str) -> None:
        super().__init__(name="alert", daemon=True)
        self.outcome = ""  # until it has one
        self.seconds = 0.0
        self._channel = channel
        self._title = title
        self._body = body

    def run(self) -> None:
        started = time.monotonic()
        try:
            took_it = bool(self._channel.notify(title=self._title, body=self._body))
        except Exception as error:  # whatever a chat service does, the run goes on; the log has the alarm
            log.error("the alarm channel failed: %s", type(error).__name__)
            took_it = False
        self.seconds = time.monotonic() - started
        self.outcome = DELIVERED if took_it else FAILED


def deliver(urls: Sequence[str], title: str, body: str, within_seconds: float = WITHIN_SECONDS) -> list[str]:
    """An outcome for each address in its order: `delivered` or `failed`. Never raises.

    `failed` is also one that is not understood, has not answered in time, or is left alone for being slow.
    """
    try:
        return _deliver(urls, title, body, within_seconds)
    except Exception as error:
        log.error("the alarm channel failed: %s", type(error).__name__)
        return [FAILED] * len(urls)


def _nothing(record: logging.LogRecord) -> bool:
    return False


def _deliver(urls: Sequence[str], title: str, body: str, within_seconds: float) -> list[str]:
    from apprise import Apprise, AppriseAsset

    # It logs an address that it does not understand as it stands, token and all.
    logging.getLogger("apprise").addFilter(_nothing)
    asset = AppriseAsset(http_redirects=False)  # a login page would answer 200, and be told the alarm
    attempts: list[_Attempt | None] = []
    for number, url in enumerate(urls, 1):
        channel = Apprise(asset=asset)
        if time.monotonic() < _rests_until.get(url, 0.0):
            attempts.append(None)
        elif not channel.add(url):
            log.error("ALERT_URLS: address number %s is not understood", number)
            attempts.append(None)
        else:
            attempts.append(_Attempt(channel, title, body))
    started = time.monotonic()
    for attempt in attempts:
        if attempt is not None:
            attempt.start()
    outcomes = []
    for url, attempt in zip(urls, attempts, strict=True):
        if attempt is None:
            outcomes.append(FAILED)
            continue
        attempt.join(max(0.0, started + within_seconds - time.monotonic()))
        if not attempt.outcome or (attempt.outcome == FAILED and attempt.seconds > SLOW_SECONDS):
            _rests_until[url] = time.monotonic() + REST_SECONDS
        outcomes.append(attempt.outcome or FAILED)
    if FAILED in outcomes:
        log.error("an alarm could not be delivered to every address of ALERT_URLS")
    return outcomes
