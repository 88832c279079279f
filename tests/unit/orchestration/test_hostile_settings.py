"""Generated values of settings and keys of partitions: read, or refused with the name of the variable."""

import os
from datetime import date
from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st

from orchestration.partitions import SECTIONS, read_news_key, read_raw_key
from orchestration.settings import Settings, SettingsError, settings_from_environment
from tests.bad_inputs import bad_inputs

TODAY = date(2026, 11, 30)
NAMES = sorted(name.upper() for name in Settings.model_fields)
# As an environment has them: no NUL, bytes that are no UTF-8 as surrogates.
TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
    | st.sampled_from(["\udc80", "\udcff"]),
    max_size=12,
)
PIECES = st.lists(
    st.sampled_from(
        [
            *'[]{}:,;"=@/.-',
            *("http://", "https://u:hidden@x", "[::1", "127.0.0.1:", "²", "٣", "none", "nan", "inf"),
            *("1e999", "9" * 30, "true", "2026-11-30", '{"m": {"input": 1}}', '"output"', "FINANCE"),
        ]
    )
    | TEXT,
    max_size=8,
).map("".join)
VALUES = st.integers().map(str) | st.floats().map(str) | PIECES | TEXT


@bad_inputs
@given(values=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3))
@example(values={"MODEL_PRICES": "[" * 100_000})
@example(values={"LOCAL_TEST_SITES": "127.0.0.1:²"})
@example(values={"MODEL_PRICES": '{"gpt-4o-mini": {"input": 1e999, "output": 1}}'})
@example(values={"DAILY_SPENDING_CAP_USD": "NaN"})
def test_any_environment_is_in_force_or_its_variable_is_named(values: dict[str, str]) -> None:
    with patch.dict(os.environ, values, clear=True):
        try:
            settings = settings_from_environment(TODAY)
        except SettingsError as error:
            problem = str(error)
        else:
            assert_in_force(settings)
            return
    assert any(name in problem for name in values)
    addresses = [value for name, value in values.items() if name.endswith("_URL")]
    others = "".join(value for name, value in values.items() if not name.endswith("_URL"))
    assert not any(len(one) > 20 and one in problem and one not in others for one in addresses)


def assert_in_force(settings: Settings) -> None:
    assert settings.visit_session_minutes > 0 and settings.ai_lease_minutes > 0
    assert settings.daily_spending_cap_usd is None or settings.daily_spending_cap_usd >= 0
    assert settings.hours_between_metadata_syncs() >= 1
    if settings.local_test_sites:
        assert int(settings.local_test_sites.rpartition(":")[2]) < 65_536


KEYS = st.lists(
    st.sampled_from(["2026-11-30", "2026-13-01", "20261130", "|", "/", "kr", "news", *SECTIONS, "\n"]) | TEXT,
    max_size=6,
).map("".join)


@bad_inputs
@given(key=KEYS)
@example(key="20261130|FINANCE")
@example(key="2026-W49-1|kr/news")
def test_a_key_is_of_a_partition_or_a_value_error(key: str) -> None:
    for read in (read_news_key, read_raw_key):
        try:
            day, part = read(key)
        except ValueError:
            continue
        assert key == f"{day}|{part}"
