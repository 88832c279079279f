"""The models the stand-in knows: prices, limits and habits, and how tokens are counted.

Token rule: one token for every three ASCII characters (rounded up) and one for every other character. It
counts high on purpose (Korean is about 0.6 tokens a syllable in reality), so a budget that holds here holds
outside.
"""

from dataclasses import dataclass

from local_stack.openai_stand_in.errors import ApiError, bad_request, not_found

BATCH_PRICE_FACTOR = 0.5


@dataclass(frozen=True)
class Model:
    """Prices in USD per million tokens; `context` and `max_output` in tokens.

    `name` is the alias people ask for, `snapshot` what an answer's `model` field holds, as in the real API.
    `reasoning` models refuse `temperature` and `max_tokens`. `dimensions` is 0 for chat models.
    """

    name: str
    snapshot: str
    input_usd: float
    cached_usd: float
    output_usd: float
    context: int
    max_output: int = 0
    dimensions: int = 0
    reasoning: bool = False


_MODELS = (
    Model("gpt-4o-mini", "gpt-4o-mini-2024-07-18", 0.15, 0.075, 0.60, 128_000, 16_384),
    Model("gpt-4.1-mini", "gpt-4.1-mini-2025-04-14", 0.40, 0.10, 1.60, 1_047_576, 32_768),
    Model("gpt-4.1-nano", "gpt-4.1-nano-2025-04-14", 0.10, 0.025, 0.40, 1_047_576, 32_768),
    Model("gpt-5-mini", "gpt-5-mini-2025-08-07", 0.25, 0.025, 2.00, 400_000, 128_000, reasoning=True),
    Model("gpt-5-nano", "gpt-5-nano-2025-08-07", 0.05, 0.005, 0.40, 400_000, 128_000, reasoning=True),
    Model("text-embedding-3-small", "text-embedding-3-small", 0.02, 0.02, 0.0, 8_192, dimensions=1536),
    Model("text-embedding-3-large", "text-embedding-3-large", 0.13, 0.13, 0.0, 8_192, dimensions=3072),
)
MODELS = {name: model for model in _MODELS for name in (model.name, model.snapshot)}


def chat_model(name: object) -> Model:
    """The chat model of that name or snapshot; ApiError 400 without a name, 404 for any other."""
    model = _known(name)
    if model.dimensions:
        raise not_found(
            "This is not a chat model and thus not supported in the v1/chat/completions endpoint.",
            code="model_not_found",
        )
    return model


def embedding_model(name: object) -> Model:
    """The embedding model of that name; ApiError 400 without a name, 403 for a chat model, 404 if unknown."""
    model = _known(name)
    if not model.dimensions:
        raise ApiError(403, "You are not allowed to generate embeddings from this model")
    return model


def _known(name: object) -> Model:
    if not isinstance(name, str) or not name:
        raise bad_request("you must provide a model parameter", param="model")
    if name not in MODELS:
        raise not_found(
            f"The model `{name}` does not exist or you do not have access to it.", code="model_not_found"
        )
    return MODELS[name]


def count_tokens(text: str) -> int:
    """Estimated tokens of a text, by the rule at the top of this module."""
    ascii_characters = len(text.encode("ascii", "ignore"))
    return -(-ascii_characters // 3) + len(text) - ascii_characters


@dataclass(frozen=True)
class Usage:
    """Tokens of one call; `cached` is the part of `prompt` that was served from the prompt cache."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0


NO_USAGE = Usage()


def cost_usd(model: Model, usage: Usage, *, in_batch: bool) -> float:
    """What a call costs in USD; half price in a batch."""
    fresh = usage.prompt - usage.cached
    millionths = (
        fresh * model.input_usd + usage.cached * model.cached_usd + usage.completion * model.output_usd
    )
    return round(millionths * (BATCH_PRICE_FACTOR if in_batch else 1.0) / 1_000_000, 10)
