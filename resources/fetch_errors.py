"""What the guarded fetch raises beside FetchFailed: refusals for good, and answers with a bad status."""

from resources.errors import FetchFailed, ServiceError


class FetchRefused(ServiceError):
    """Permanent: asking again brings the same, until the address or the site behind it changes.

    Not a public address, another scheme or port, not an accepted type, too many redirects, and the like.
    """


class AnsweredBadly(FetchFailed):
    """The host answered, with a status that is neither a page nor a redirect."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status
