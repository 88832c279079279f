"""Where a model is asked."""

import pytest

from resources.chat import ChatResource
from resources.openai_api import OPENAI_URL


@pytest.mark.parametrize(
    ("setting", "variable", "asked"),
    [
        ("", None, OPENAI_URL),
        ("", "", OPENAI_URL),
        ("", " ", OPENAI_URL),
        ("", "http://own:8000/v1", "http://own:8000/v1"),
        ("http://own:9000/v1", "", "http://own:9000/v1"),
        ("http://own:9000/v1", "http://own:8000/v1", "http://own:9000/v1"),
    ],
)
def test_an_own_server_is_asked_where_one_is_named_and_an_empty_name_is_none(
    monkeypatch: pytest.MonkeyPatch, setting: str, variable: str | None, asked: str
) -> None:
    if variable is None:
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    else:
        monkeypatch.setenv("OPENAI_BASE_URL", variable)
    with ChatResource(model="gpt-4o-mini", base_url=setting, api_key="sk-none")._new_client() as client:
        assert str(client.base_url).rstrip("/") == asked
