"""The text of a product that its vector is made from."""

import hashlib

MOST_CHARACTERS = 6_000
"""Far below what an embedding model takes. The free text comes last and is what is cut."""
TEXT_VERSION = "1"
"""Another one wherever `embedded_text` gives another text for the same product: all are compared anew."""


def embedded_text(name: str, category: str, text: str) -> str:
    """Name, category and text, a line each; what is blank has no line. "" where all are: nothing to embed."""
    parts = (part.strip() for part in (name, category, text))
    return "\n".join(part for part in parts if part)[:MOST_CHARACTERS]


def text_hash(embedded: str) -> str:
    """SHA-256 in hex of what is embedded: another one means that the vector is out of date."""
    return hashlib.sha256(embedded.encode("utf-8", "surrogatepass")).hexdigest()
