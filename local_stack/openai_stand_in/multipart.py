"""Reads the multipart form of a file upload."""

import re

from local_stack.openai_stand_in.calls import Upload
from local_stack.openai_stand_in.errors import bad_request

_PURPOSES = frozenset({"assistants", "batch", "fine-tune", "vision", "user_data", "evals"})
_BOUNDARY = re.compile(r'boundary="?([^";]+)"?', re.IGNORECASE)
_NAME = re.compile(r'[; ]name="([^"]*)"', re.IGNORECASE)
_FILENAME = re.compile(r'filename="([^"]*)"', re.IGNORECASE)


def read_upload(content_type: str, body: bytes) -> Upload:
    """The uploaded file and its purpose; raises ApiError 400 if the form is broken or lacks one of them."""
    boundary = _BOUNDARY.search(content_type)
    if not content_type.lower().startswith("multipart/form-data") or not boundary:
        raise bad_request("The upload must be multipart/form-data with a boundary.")
    purpose, filename, content = "", "", None
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary.group(1).encode())[1:]:
        head, separator, value = part.partition(b"\r\n\r\n")
        described = head.decode("utf-8", "replace")
        name = _NAME.search(described)
        if not separator or not name:
            continue
        if name.group(1) == "purpose":
            purpose = value.decode("utf-8", "replace")
        if name.group(1) == "file":
            found = _FILENAME.search(described)
            filename, content = found.group(1) if found else "upload", value
    if content is None:
        raise bad_request("'file' is a required property", param="file")
    if purpose not in _PURPOSES:
        raise bad_request(f"'{purpose}' is not one of {sorted(_PURPOSES)} - 'purpose'", param="purpose")
    if purpose == "batch" and not filename.endswith(".jsonl"):
        raise bad_request("Invalid file format for Batch API. Must be .jsonl")
    return Upload(filename, content, purpose)
