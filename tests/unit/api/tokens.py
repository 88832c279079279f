"""Tokens for the tests, and an application that never reaches a database."""

import pytest
from fastapi.testclient import TestClient

from api.app import build_app
from orchestration.settings import Settings

API_TOKEN = "internal-canary-7f3a9c"
ADMIN_TOKEN = "admin-canary-51be20"
HMAC_KEY = "hmac-canary-c0ffee"
NOWHERE = "postgresql://granary:canary-password@127.0.0.1:9/granary"

BEARER = {"Authorization": f"Bearer {API_TOKEN}"}
ADMIN = {"X-ADMIN-TOKEN": ADMIN_TOKEN}


def configure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", API_TOKEN)
    monkeypatch.setenv("ADMIN_TOKEN", ADMIN_TOKEN)
    monkeypatch.setenv("CONTEXT_HMAC_KEY", HMAC_KEY)


def door() -> TestClient:
    """The whole application, its pool never opened."""
    return TestClient(build_app(Settings(), NOWHERE))
