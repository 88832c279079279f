"""Text that every store of ours takes: NFC, no NUL, no lone surrogates."""

import unicodedata


def storable(text: str) -> str:
    """`text` in NFC without NUL characters, lone surrogates replaced by U+FFFD.

    Postgres refuses NUL in text and in jsonb, and a lone surrogate cannot be encoded as UTF-8.
    """
    whole = text.replace("\x00", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return unicodedata.normalize("NFC", whole)
