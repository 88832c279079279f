"""What is known of each model: prices, limits, parameters it takes, and its announced end.

Prices are USD per million tokens as published by the provider; batch calls cost half.
"""

from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

from pydantic import BaseModel, ConfigDict, Field

from resources.errors import ModelHasNoPrice

MILLION = Decimal(1_000_000)
WARN_BEFORE_END_DAYS = 60


class ModelPrice(BaseModel):
    """USD per million tokens. A cached input token costs `cached`, or as much as any other if unset."""

    # A misspelled `output` would make the output free, and the cap blind.
    model_config = ConfigDict(extra="forbid")

    input: Decimal = Field(ge=0)
    cached: Decimal | None = Field(None, ge=0)
    output: Decimal = Field(Decimal(0), ge=0)
    batch_share: Decimal = Field(Decimal("0.5"), ge=0, le=1)

    def in_batch(self) -> "ModelPrice":
        """What the same tokens cost in a batch."""
        cached = None if self.cached is None else self.cached * self.batch_share
        return ModelPrice(
            input=self.input * self.batch_share,
            cached=cached,
            output=self.output * self.batch_share,
            batch_share=Decimal(1),
        )


@dataclass(frozen=True)
class Model:
    """One model. `token_limit_parameter` is the request field that bounds the output."""

    name: str
    price: ModelPrice
    context_tokens: int = 128_000
    token_limit_parameter: str = "max_completion_tokens"
    takes_temperature: bool = True
    ends_on: date | None = None

    def cost_usd(self, input_tokens: int, cached_tokens: int, output_tokens: int) -> Decimal:
        """The price of one direct call; `cached_tokens` are part of `input_tokens`."""
        cached_price = self.price.input if self.price.cached is None else self.price.cached
        full = (input_tokens - cached_tokens) * self.price.input + cached_tokens * cached_price
        return (full + output_tokens * self.price.output) / MILLION

    def most_it_can_cost_usd(self, input_tokens: int, max_output_tokens: int) -> Decimal:
        """The price of a call whose output uses all that it may, nothing cached."""
        return self.cost_usd(input_tokens, 0, max_output_tokens)

    def in_batch(self) -> "Model":
        """The model at its batch prices, to reserve and settle what a batch costs."""
        return replace(self, price=self.price.in_batch())

    def warning(self, today: date, setting: str = "OPENAI_MODEL") -> str | None:
        """A sentence for the operator where the provider has announced the model's end, else None.

        `setting` names what the operator changes to choose another.
        """
        if self.ends_on is None or (self.ends_on - today).days > WARN_BEFORE_END_DAYS:
            return None
        verb = "ends" if self.ends_on >= today else "ended"
        return f"{self.name} {verb} on {self.ends_on}: choose its successor with {setting}"


def _price(input: str, cached: str | None, output: str) -> ModelPrice:
    return ModelPrice(
        input=Decimal(input), cached=None if cached is None else Decimal(cached), output=Decimal(output)
    )


_KNOWN = {
    model.name: model
    for model in (
        Model(
            "gpt-4o-mini",
            _price("0.15", "0.075", "0.60"),
            token_limit_parameter="max_tokens",
            ends_on=date(2027, 1, 14),
        ),
        Model("gpt-4.1-mini", _price("0.40", "0.10", "1.60"), context_tokens=1_047_576),
        Model("gpt-5-mini", _price("0.25", "0.025", "2.00"), context_tokens=400_000, takes_temperature=False),
        Model("text-embedding-3-small", _price("0.02", None, "0"), context_tokens=8_191),
        Model("text-embedding-3-large", _price("0.13", None, "0"), context_tokens=8_191),
    )
}


def model_named(name: str, more_prices: dict[str, ModelPrice]) -> Model:
    """The model of that name; a price from the settings goes before the table's.

    Raises ModelHasNoPrice: without a price nothing can be capped, so the model is refused.
    """
    known = _KNOWN.get(name)
    price = more_prices.get(name)
    if price is not None:
        # GPT-5-class models refuse the parameter, whatever the rest of their name.
        base = known or Model(name, price, takes_temperature=not name.startswith("gpt-5"))
        return Model(
            name,
            price,
            base.context_tokens,
            base.token_limit_parameter,
            base.takes_temperature,
            base.ends_on,
        )
    if known is None:
        raise ModelHasNoPrice(name)
    return known
