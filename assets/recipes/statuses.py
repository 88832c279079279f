"""The statuses of a recipe's job record, and which one a failure falls back to (README.md, "Job records")."""

from enum import StrEnum

MOST_RETRIES = 3
LEASE_SECONDS = 600
"""A claim that was not renewed for so long is a dead run's."""


class Status(StrEnum):
    """In the order of the data flow; `…ing` means that a run has claimed the job."""

    FETCHED = "fetched"
    PARSE_SUBMITTING = "parse_submitting"
    PARSE_SUBMITTED = "parse_submitted"
    PARSE_RETRIEVING = "parse_retrieving"
    PARSE_RETRIEVED = "parse_retrieved"
    PERSISTING = "persisting"
    PERSISTED = "persisted"
    EMBED_SUBMITTING = "embed_submitting"
    EMBED_SUBMITTED = "embed_submitted"
    EMBED_RETRIEVING = "embed_retrieving"
    EMBED_RETRIEVED = "embed_retrieved"
    FAILED = "failed"


STABLE_BEFORE = {
    Status.PARSE_SUBMITTING: Status.FETCHED,
    Status.PARSE_SUBMITTED: Status.FETCHED,
    Status.PARSE_RETRIEVING: Status.FETCHED,
    Status.PERSISTING: Status.PARSE_RETRIEVED,
    Status.EMBED_SUBMITTING: Status.PERSISTED,
    Status.EMBED_SUBMITTED: Status.PERSISTED,
    Status.EMBED_RETRIEVING: Status.PERSISTED,
}
"""Where a job goes whose line or batch failed."""

RELEASED_TO = {
    Status.PARSE_SUBMITTING: Status.FETCHED,
    Status.PARSE_RETRIEVING: Status.PARSE_SUBMITTED,
    Status.PERSISTING: Status.PARSE_RETRIEVED,
    Status.EMBED_SUBMITTING: Status.PERSISTED,
    Status.EMBED_RETRIEVING: Status.EMBED_SUBMITTED,
}
"""Where a job goes whose run died: a batch that is paid for is kept."""

CLAIMED_AS = {
    Status.FETCHED: Status.PARSE_SUBMITTING,
    Status.PARSE_SUBMITTED: Status.PARSE_RETRIEVING,
    Status.PARSE_RETRIEVED: Status.PERSISTING,
    Status.PERSISTED: Status.EMBED_SUBMITTING,
    Status.EMBED_SUBMITTED: Status.EMBED_RETRIEVING,
}
"""What a claim makes of a job."""

FINISHED_AS = {
    Status.PARSE_SUBMITTING: {Status.PARSE_SUBMITTED},
    Status.PARSE_RETRIEVING: {Status.PARSE_RETRIEVED},
    Status.PERSISTING: {Status.PERSISTED},
    Status.EMBED_SUBMITTING: {Status.EMBED_SUBMITTED, Status.EMBED_RETRIEVED},
    Status.EMBED_RETRIEVING: {Status.EMBED_RETRIEVED},
}
"""What a finish makes of a claimed job; an unchanged document needs no batch and is embedded at once."""

WITHOUT_BATCH = (Status.FETCHED, Status.PARSE_RETRIEVED, Status.PERSISTED)
"""Where a job waits for a run and for nothing else."""

TIMESTAMPS = {
    Status.FETCHED: "fetched_at",
    Status.PARSE_SUBMITTED: "parse_submitted_at",
    Status.PARSE_RETRIEVED: "parse_retrieved_at",
    Status.PERSISTED: "persisted_at",
    Status.EMBED_SUBMITTED: "embed_submitted_at",
    Status.EMBED_RETRIEVED: "embed_retrieved_at",
    Status.FAILED: "failed_at",
}
"""The field that says when a job came to a status."""
