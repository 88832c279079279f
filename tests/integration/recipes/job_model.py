"""What a job record should hold: the contract's rules over plain data, not taken from the code."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

LEASE = timedelta(minutes=10)
FREE_RELEASES = 2
MOST_RETRIES = 3

CLAIMS = {
    "fetched": "parse_submitting",
    "parse_submitted": "parse_retrieving",
    "parse_retrieved": "persisting",
    "persisted": "embed_submitting",
    "embed_submitted": "embed_retrieving",
}
FINISHES = {
    "parse_submitting": "parse_submitted",
    "parse_retrieving": "parse_retrieved",
    "persisting": "persisted",
    "embed_submitting": "embed_submitted",
    "embed_retrieving": "embed_retrieved",
}
FAILURES = {
    "parse_submitting": "fetched",
    "parse_retrieving": "fetched",
    "persisting": "parse_retrieved",
    "embed_submitting": "persisted",
    "embed_retrieving": "persisted",
}
RELEASES = {claimed: waited for waited, claimed in CLAIMS.items()}
# What a finish stores, and what is lost by who goes back to be asked again.
RESULTS = {
    "parse_submitted": "parse_batch_id",
    "parse_retrieved": "retrieved_data",
    "embed_submitted": "embed_batch_id",
}
FORGOTTEN = {"fetched": "parse_batch_id", "persisted": "embed_batch_id"}


@dataclass
class Record:
    """A job record. `results` are the fields that finishes have stored."""

    source_id: str
    raw_hash: str
    status: str = "fetched"
    retry_count: int = 0
    releases: int = 0
    claimed_by: str | None = None
    claimed_at: datetime | None = None
    is_persisted: bool = False
    results: dict[str, str] = field(default_factory=dict)

    def is_held(self, status: str, claimed_by: str) -> bool:
        """Whether the claim is the one of now."""
        return (self.status, self.claimed_by) == (status, claimed_by)

    def be_claimed(self, claimed_by: str, now: datetime) -> None:
        self.status, self.claimed_by, self.claimed_at = CLAIMS[self.status], claimed_by, now

    def move(self, status: str) -> None:
        """To a status that nobody holds."""
        self.status, self.claimed_by, self.claimed_at = status, None, None

    def finish(self, text: str) -> None:
        """The next status with its result."""
        to = FINISHES[self.status]
        self.move(to)
        self.is_persisted |= to == "persisted"
        if to in RESULTS:
            self.results[RESULTS[to]] = text

    def fail(self) -> None:
        """A retry, and back to be asked again; after the last, failed."""
        to = FAILURES[self.status]
        self.results.pop(FORGOTTEN.get(to, ""), None)
        self.retry_count += 1
        self.move("failed" if self.retry_count >= MOST_RETRIES else to)

    def release(self) -> str:
        """Free as if never claimed; from the third death of a run on, each is a retry. What it was."""
        self.releases += 1
        if self.releases <= FREE_RELEASES:
            self.move(RELEASES[self.status])
            return "released"
        if self.retry_count < MOST_RETRIES - 1:
            self.retry_count += 1
            self.move(RELEASES[self.status])
            return "counted"
        self.fail()
        return "failed"

    def start_again(self) -> None:
        """At the last result, without retries."""
        if "retrieved_data" not in self.results:
            self.move("fetched")
        else:
            self.move("persisted" if self.is_persisted else "parse_retrieved")
        self.retry_count = self.releases = 0
