"""What makes three term cards valid (assets/economy_news/README.md)."""

from pydantic import BaseModel, ConfigDict

from assets.economy_news.answers import InvalidOutput, read_items, read_json
from assets.economy_news.prompts import read_prompt

CARDS = 3
LONGEST_TERM = 60

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["cards"],
    "properties": {
        "cards": {
            "type": "array",
            "minItems": CARDS,
            "maxItems": CARDS,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["term", "highlight_text", "definition"],
                "properties": {
                    "term": {"type": "string"},
                    "highlight_text": {"type": "string"},
                    "definition": {"type": "string"},
                },
            },
        }
    },
}
PROMPT = read_prompt("term_cards", "term_cards", SCHEMA)


class TermCard(BaseModel):
    """A finance term, where the summary uses it (verbatim), and what it means."""

    model_config = ConfigDict(frozen=True)

    term: str
    highlight_text: str
    definition: str


def read_term_cards(content: str, summary_full: str) -> tuple[TermCard, ...]:
    """The three cards in a model's answer. Raises InvalidOutput with the first rule that it breaks.

    `summary_full` is the text that every highlight must occur in, to the letter.
    """
    items = read_items(read_json(content), "cards", CARDS, ("term", "highlight_text", "definition"))
    cards = tuple(TermCard(**item) for item in items)
    for card in cards:
        if len(card.term) > LONGEST_TERM:
            raise InvalidOutput(f"용어는 {LONGEST_TERM}자를 넘지 않아야 합니다.")
        if card.highlight_text not in summary_full:
            complaint = f"highlight_text가 summary_full에 그대로 있지 않습니다: {card.highlight_text[:80]}"
            raise InvalidOutput(complaint, code="highlight_not_in_summary")
    if len({term_key(card.term) for card in cards}) != CARDS:
        raise InvalidOutput("용어가 서로 달라야 합니다.")
    return cards


def term_key(term: str) -> str:
    """What makes two spellings one term of the dictionary: letter case and spaces do not count."""
    return "".join(term.split()).casefold()


def as_text(cards: tuple[TermCard, ...]) -> str:
    """The cards as the quiz about them reads them: a line each, `term: definition`."""
    return "\n".join(f"{card.term}: {card.definition}" for card in cards)
