"""What the demo says of one pipeline."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class PipelineReport:
    """Rows, tokens and USD that are there after the run, seconds of the run, and what was checked.

    `claims` maps a sentence to whether it is true; `news` says what this run added.
    """

    pipeline: str
    partitions: int
    rows: Mapping[str, int]
    tokens: int
    cost_usd: float
    seconds: float
    news: str
    claims: dict[str, bool] = field(default_factory=dict)
    more: dict[str, object] = field(default_factory=dict)
    """What else stands in the pipeline's entry of `.local/demo.json`."""

    @property
    def is_right(self) -> bool:
        return all(self.claims.values())

    def as_json(self) -> dict[str, object]:
        """The pipeline's entry in `.local/demo.json`."""
        return {
            **self.rows,
            **self.more,
            "partitions": self.partitions,
            "tokens": self.tokens,
            "cost_usd": round(self.cost_usd, 8),
            "seconds": round(self.seconds, 2),
            "right": self.is_right,
            "wrong": [claim for claim, is_true in self.claims.items() if not is_true],
            "news": self.news,
        }
