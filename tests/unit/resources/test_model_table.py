"""Prices, parameters and announced ends of models."""

from datetime import date
from decimal import Decimal

import pytest
from pydantic import ValidationError

from resources.errors import ModelHasNoPrice
from resources.model_table import Model, ModelPrice, model_named

MINI = model_named("gpt-4o-mini", {})


def test_a_call_costs_its_tokens_by_kind() -> None:
    # 600 fresh at 0.15, 400 cached at 0.075, 200 output at 0.60, all USD per million.
    assert MINI.cost_usd(1_000, 400, 200) == Decimal("0.00024")


def test_a_call_without_tokens_costs_nothing() -> None:
    assert MINI.cost_usd(0, 0, 0) == 0


def test_the_most_that_a_call_can_cost_takes_nothing_for_cached() -> None:
    assert MINI.most_it_can_cost_usd(1_000_000, 1_000_000) == Decimal("0.75")
    for cached in (0, 1, 500_000, 1_000_000):
        assert MINI.cost_usd(1_000_000, cached, 1_000_000) <= MINI.most_it_can_cost_usd(1_000_000, 1_000_000)


def test_in_a_batch_every_token_costs_half() -> None:
    assert MINI.in_batch().cost_usd(1_000, 400, 200) == Decimal("0.00012")
    vectors = model_named("text-embedding-3-small", {})
    assert vectors.cost_usd(1_000_000, 0, 0) == Decimal("0.02")
    assert vectors.in_batch().cost_usd(1_000_000, 0, 0) == Decimal("0.01")


def test_a_price_from_the_settings_says_its_own_share_in_a_batch_which_counts_once() -> None:
    own = ModelPrice(input=Decimal(8), output=Decimal(4), batch_share=Decimal("0.25"))
    model = model_named("local-llama", {"local-llama": own}).in_batch()
    assert model.cost_usd(1_000_000, 1_000_000, 1_000_000) == Decimal(3)
    assert model.in_batch() == model
    assert model.name == "local-llama"


def test_without_a_price_for_cached_tokens_they_cost_as_much_as_any() -> None:
    model = Model("own", ModelPrice(input=Decimal(2), output=Decimal(4)))
    assert model.cost_usd(1_000_000, 1_000_000, 0) == Decimal(2)


def test_a_model_without_a_known_price_is_refused_with_the_setting_that_gives_it_one() -> None:
    with pytest.raises(ModelHasNoPrice, match=r"MODEL_PRICES='\{\"local-llama\""):
        model_named("local-llama", {})


def test_a_price_from_the_settings_makes_a_model_usable_even_if_it_is_nothing() -> None:
    model = model_named("local-llama", {"local-llama": ModelPrice(input=Decimal(0), output=Decimal(0))})
    assert model.cost_usd(1_000_000, 0, 1_000_000) == 0
    assert model.takes_temperature
    assert model.ends_on is None


def test_a_price_from_the_settings_goes_before_the_tables_and_keeps_what_else_is_known() -> None:
    model = model_named("gpt-5-mini", {"gpt-5-mini": ModelPrice(input=Decimal(1), output=Decimal(1))})
    assert model.price.input == 1
    assert not model.takes_temperature
    assert model.context_tokens == 400_000


@pytest.mark.parametrize(
    ("name", "limit", "takes_temperature"),
    [
        ("gpt-4o-mini", "max_tokens", True),
        ("gpt-4.1-mini", "max_completion_tokens", True),
        ("gpt-5-mini", "max_completion_tokens", False),
    ],
)
def test_each_model_says_which_parameters_it_takes(name: str, limit: str, takes_temperature: bool) -> None:
    model = model_named(name, {})
    assert (model.token_limit_parameter, model.takes_temperature) == (limit, takes_temperature)


@pytest.mark.parametrize("wrong", [{"input": -1}, {"input": 1, "cached": -1}, {"input": 1, "batch_share": 2}])
def test_a_price_below_nothing_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        ModelPrice.model_validate(wrong)


def test_a_misspelled_price_is_refused_since_the_output_would_be_free() -> None:
    with pytest.raises(ValidationError, match="ouput"):
        ModelPrice.model_validate({"input": 1, "ouput": 2})


@pytest.mark.parametrize(
    ("today", "said"),
    [
        (date(2026, 11, 14), None),
        (date(2026, 11, 15), "gpt-4o-mini ends on 2027-01-14"),
        (date(2027, 1, 14), "gpt-4o-mini ends on 2027-01-14"),
        (date(2027, 1, 15), "gpt-4o-mini ended on 2027-01-14"),
    ],
)
def test_a_model_warns_from_sixty_days_before_its_announced_end(today: date, said: str | None) -> None:
    warning = MINI.warning(today)
    if said is None:
        assert warning is None
    else:
        assert warning is not None and warning.startswith(said) and "OPENAI_MODEL" in warning


def test_a_warning_names_the_setting_that_chose_the_model() -> None:
    warning = MINI.warning(date(2027, 1, 14), "OPENAI_BATCH_MODEL")
    assert warning is not None and warning.endswith("with OPENAI_BATCH_MODEL")


def test_a_model_without_an_announced_end_never_warns() -> None:
    assert model_named("gpt-4.1-mini", {}).warning(date(2099, 1, 1)) is None
