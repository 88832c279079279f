"""When a job is tried again (assets/economy_news/README.md)."""

from pydantic import BaseModel, ConfigDict


class RetryTimes(BaseModel):
    """Retry n of `most` waits base × 2^(n−1) seconds, at most `maximum_seconds`."""

    model_config = ConfigDict(frozen=True)

    most: int = 5
    base_seconds: int = 30
    maximum_seconds: int = 600

    def delay_seconds(self, attempt: int, retry_after: float | None) -> float | None:
        """Seconds until the next try after `attempt` (1, 2, …) failed; None: the retries are spent.

        A Retry-After, already bounded to an hour by its reader, wins over our own delay.
        """
        if attempt > self.most:
            return None
        if retry_after is not None:
            return retry_after
        return float(min(self.base_seconds * 2 ** (attempt - 1), self.maximum_seconds))
