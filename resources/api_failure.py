"""Which answer of an AI provider means what, and who must act (assets/economy_news/README.md).

Code and type are looked at before the status, since providers send one under many statuses.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from resources.errors import ServiceError

SUSPEND, RETRY, FAIL = "SUSPEND", "RETRY", "FAIL"
MAX_RETRY_AFTER_SECONDS = 3_600

_REASON_BY_CODE = {
    "insufficient_quota": "QUOTA",
    "insufficient_balance": "QUOTA",
    "credit_balance_exhausted": "QUOTA",
    "billing_not_active": "QUOTA",
    "billing_hard_limit_reached": "QUOTA",
    "invalid_api_key": "AUTH",
    "unsupported_country_region_territory": "AUTH",
    "model_not_found": "MODEL",
}
# A plain 404 is an address that is wrong for every call: OPENAI_BASE_URL, or a model it does not have.
_REASON_BY_STATUS = {402: "QUOTA", 401: "AUTH", 403: "AUTH", 404: "MODEL"}
_FAILING_CODES = frozenset({"context_length_exceeded", "content_filter", "content_policy_violation"})
_RETRIED_STATUSES = frozenset({408, 409, 429})


@dataclass(frozen=True)
class Verdict:
    """What becomes of the job: SUSPEND (with a reason that shuts the gate), RETRY or FAIL."""

    effect: str
    reason: str | None = None


class ApiFailure(ServiceError):
    """A call that brought no answer. `code` is short and safe to store; `message` holds no input text."""

    def __init__(
        self,
        verdict: Verdict,
        code: str,
        message: str,
        status: int | None = None,
        retry_after_seconds: float | None = None,
        may_have_been_charged: bool = False,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.verdict = verdict
        self.code = code
        self.message = message
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.may_have_been_charged = may_have_been_charged


def verdict_of(status: int | None, code: str | None, type_: str | None) -> Verdict:
    """The verdict on an answer. `status` None: there was no answer (time-out, no connection)."""
    for name in (code, type_):
        if name in _REASON_BY_CODE:
            return Verdict(SUSPEND, _REASON_BY_CODE[name])
        if name in _FAILING_CODES:
            return Verdict(FAIL)
    if status is None or status in _RETRIED_STATUSES or status >= 500:
        return Verdict(RETRY)
    if status in _REASON_BY_STATUS:
        return Verdict(SUSPEND, _REASON_BY_STATUS[status])
    return Verdict(FAIL)


def retry_after_seconds(value: str | None, now: datetime | None = None) -> float | None:
    """Seconds that a Retry-After header asks for, at most an hour; None where it says nothing readable.

    Both forms of RFC 9110 are read: seconds, and a date (compared with `now`, else this machine's clock).
    """
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        moment = read_http_date(value)
        if moment is None:
            return None
        seconds = (moment - (now or datetime.now(UTC))).total_seconds()
    if not 0 <= seconds < float("inf"):
        return None
    return min(seconds, MAX_RETRY_AFTER_SECONDS)


def read_http_date(value: str | None) -> datetime | None:
    """The moment (aware) of a header such as Date; None where it is none."""
    try:
        moment = parsedate_to_datetime(value or "")
    except (ValueError, OverflowError):  # the latter for a day or a zone of twenty digits
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
