"""What makes three insights valid (assets/economy_news/README.md)."""

from pydantic import BaseModel, ConfigDict

from assets.economy_news.answers import read_items, read_json
from assets.economy_news.prompts import read_prompt

INSIGHTS = 3

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["insights"],
    "properties": {
        "insights": {
            "type": "array",
            "minItems": INSIGHTS,
            "maxItems": INSIGHTS,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["title", "detail", "why_it_matters"],
                "properties": {
                    "title": {"type": "string"},
                    "detail": {"type": "string"},
                    "why_it_matters": {"type": "string"},
                },
            },
        }
    },
}
PROMPT = read_prompt("insight", "article_insights", SCHEMA)


class Insight(BaseModel):
    """What is worth a second look, told by facts of the summary, and why it matters to a reader."""

    model_config = ConfigDict(frozen=True)

    title: str
    detail: str
    why_it_matters: str


def read_insights(content: str) -> tuple[Insight, ...]:
    """The three insights in a model's answer. Raises InvalidOutput with the first rule that it breaks."""
    items = read_items(read_json(content), "insights", INSIGHTS, ("title", "detail", "why_it_matters"))
    return tuple(Insight(**item) for item in items)
