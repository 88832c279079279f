"""What can go wrong with an outside service, as classes that say who must act.

Transient: the same call may succeed later. Permanent: it never will without a change by a person.
Each failure has one owner of its retry (ARCHITECTURE.md, "Who retries what").
"""


class ServiceError(Exception):
    """Base of what a resource raises on purpose."""


class ServiceUnavailable(ServiceError):
    """Transient: the service cannot be reached or asks for patience."""


class ServiceNotConfigured(ServiceError):
    """Permanent: a setting is missing; the message names it and the remedy."""


class ModelHasNoPrice(ServiceError):
    """Permanent: the model table has no price for the model, so its calls cannot be capped."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"no price is known for the model {model!r}: give it one with MODEL_PRICES, "
            f'for example MODEL_PRICES=\'{{"{model}": {{"input": 0.15, "output": 0.60}}}}\' '
            "(USD per million tokens; 0 for a local server)"
        )


class SpendingCapReached(ServiceError):
    """The day's cap leaves no room for this call; nothing was sent.

    `by_this_call_alone`: the call can cost more than a whole day may.
    """

    def __init__(self, message: str, by_this_call_alone: bool = False) -> None:
        super().__init__(message)
        self.by_this_call_alone = by_this_call_alone


class CrawlNotAllowed(ServiceError):
    """Permanent: the site's robots.txt or a missing permission forbids the request; a hard stop."""


class HostPaused(ServiceError):
    """The host refused us (403, 429) and is left alone until a given time."""


class FetchFailed(ServiceUnavailable):
    """Transient: a page could not be fetched: status, time-out, connection, or past a size limit."""
