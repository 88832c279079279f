"""What calls of one kind take, by what such calls took before, or by a guess that says so. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operations.quote_answer import Work
from resources.model_table import Model

BYTES_A_TOKEN = 3
"""Of Korean, and of what is reserved: input is reserved by its bytes."""
GUESSED_SECONDS = 4.0
BATCH_SECONDS = 24 * 3600.0
"""Within which the provider ends a batch, or hands back what it has done of it."""


@dataclass(frozen=True)
class CallSize:
    """Tokens of one result with all its calls; `cached` are part of `input`. `basis`: how it is known."""

    input: float
    cached: float
    output: float
    basis: str


@dataclass(frozen=True)
class Measured:
    """Averages of results of one kind by one model."""

    kind: str
    model: str
    results: int
    input: float
    cached: float
    output: float


@dataclass(frozen=True)
class Manner:
    """How calls are made. `seconds` and `most_output_tokens`: of one; `repeats`: the share asked twice."""

    model: Model
    seconds: float
    at_once: int
    most_output_tokens: int
    repeats: float = 0.0


def size_of(kind: str, model: str, measured: Sequence[Measured], guess: tuple[int, int]) -> CallSize:
    """The averages of this model; else of the model with most results; else the guess (input, output)."""
    of_kind = [one for one in measured if one.kind == kind and one.results]
    if not of_kind:
        return CallSize(guess[0], 0, guess[1], "a built-in guess, since none was made in the last 30 days")
    best = max(of_kind, key=lambda one: (one.model == model, one.results))
    by = "" if best.model == model else f" by {best.model}, none by {model}"
    basis = f"the average of {best.results:,} made in the last 30 days{by}"
    return CallSize(best.input, best.cached, best.output, basis)


def priced(what: str, items: Mapping[str, int], size: CallSize, manner: Manner) -> Work:
    """What so many items take, asked one by one."""
    count = sum(items.values())
    calls = round(count * (1 + manner.repeats))
    tokens = [round(count * each) for each in (size.input, size.cached, size.output)]
    most_input = round(size.input * BYTES_A_TOKEN)
    each = f"{size.input:,.0f} tokens in and {size.output:,.0f} out each: {size.basis}"
    return Work(
        what=what,
        model=manner.model.name,
        items=items,
        calls=calls,
        input_tokens=tokens[0],
        output_tokens=tokens[2],
        usd=manner.model.cost_usd(*tokens),
        most_usd=manner.model.most_it_can_cost_usd(most_input * calls, manner.most_output_tokens * calls),
        seconds=calls * manner.seconds / manner.at_once,
        basis=each,
    )
