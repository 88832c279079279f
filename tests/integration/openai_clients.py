"""Clients of the OpenAI stand-in, by its address."""

from typing import Any

from resources.chat import ChatResource
from resources.embeddings import EmbeddingResource

KEY = "sk-test-canary-7431"
CHAT_MODEL, EMBEDDING_MODEL = "gpt-4o-mini", "text-embedding-3-small"


def embedding_resource(url: str, **changes: Any) -> EmbeddingResource:
    settings = {"base_url": f"{url}/v1", "api_key": KEY, "timeout_ms": 10_000, **changes}
    return EmbeddingResource(**{"model": EMBEDDING_MODEL, **settings})


def chat_resource(url: str, **changes: Any) -> ChatResource:
    settings = {"base_url": f"{url}/v1", "api_key": KEY, "timeout_ms": 10_000, **changes}
    return ChatResource(**{"model": CHAT_MODEL, **settings})
