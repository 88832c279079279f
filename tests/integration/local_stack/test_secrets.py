"""The keys made up for a stack: the same at every start, whatever a newer version adds to them."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from local_stack import environment
from local_stack.state import Secrets


def test_they_are_made_once_and_readable_by_their_owner_alone(tmp_path: Path) -> None:
    first = Secrets.load(tmp_path)
    assert Secrets.load(tmp_path) == first
    assert len(set(asdict(first).values())) == len(asdict(first))
    assert (tmp_path / "secrets.json").stat().st_mode & 0o777 == 0o600


def test_a_key_that_is_new_is_added_and_the_others_stay(tmp_path: Path) -> None:
    before = asdict(Secrets.load(tmp_path))
    older = {name: value for name, value in before.items() if name != "context_hmac_key"}
    (tmp_path / "secrets.json").write_text(json.dumps(older))
    after = Secrets.load(tmp_path)
    assert asdict(after) == before | {"context_hmac_key": after.context_hmac_key}
    assert len(after.context_hmac_key) >= 16
    assert Secrets.load(tmp_path) == after


@pytest.mark.parametrize("content", ["", "[]", "7", '"context_hmac_key"', '{"api_token": '])
def test_a_file_that_is_none_is_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / "secrets.json").write_text(content)
    assert Secrets.load(tmp_path) == Secrets.load(tmp_path)


def test_the_key_of_texts_is_given_out_unless_the_caller_has_one(tmp_path: Path) -> None:
    secrets = Secrets.load(tmp_path)
    given = environment.general_variables(tmp_path, secrets)
    assert environment.merged({}, given, tmp_path)["CONTEXT_HMAC_KEY"] == secrets.context_hmac_key
    own = {"CONTEXT_HMAC_KEY": "a-key-of-the-callers"}
    assert environment.merged(own, given, tmp_path)["CONTEXT_HMAC_KEY"] == "a-key-of-the-callers"
