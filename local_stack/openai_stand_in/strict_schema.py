"""What the real API checks about a response_format before it asks the model."""

import re
from typing import Any

from local_stack.openai_stand_in.calls import Json
from local_stack.openai_stand_in.errors import ApiError, bad_request

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NESTED_MAPS = ("properties", "$defs", "definitions")


def check_response_format(body: Json, said: str) -> None:
    """Raises ApiError 400 for a response_format the real API refuses."""
    wanted = body.get("response_format")
    if wanted is None:
        return
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind not in ("text", "json_object", "json_schema"):
        raise bad_request("Invalid value for 'response_format.type'.", param="response_format.type")
    if kind == "json_object" and "json" not in said.lower():
        raise bad_request(
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type "
            "'json_object'.",
            param="messages",
        )
    if kind == "json_schema":
        _check_json_schema(wanted.get("json_schema"))


def _check_json_schema(wanted: Any) -> None:
    if not isinstance(wanted, dict):
        raise bad_request(
            "Missing required parameter: 'response_format.json_schema'.",
            param="response_format.json_schema",
            code="missing_required_parameter",
        )
    name, schema = wanted.get("name"), wanted.get("schema")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise bad_request(
            "Invalid 'response_format.json_schema.name'.",
            param="response_format.json_schema.name",
            code="invalid_value",
        )
    if not isinstance(schema, dict):
        raise _invalid(name, "schema must be a JSON Schema of 'type: \"object\"'")
    if wanted.get("strict"):
        if schema.get("type") != "object":
            raise _invalid(name, "schema must be a JSON Schema of 'type: \"object\"'")
        _check_strict(name, schema, ())


def _check_strict(name: str, schema: Any, place: tuple[str, ...]) -> None:
    """Strict mode: every object closed, and every property required."""
    if isinstance(schema, list):
        for number, one in enumerate(schema):
            _check_strict(name, one, (*place, str(number)))
    if not isinstance(schema, dict):
        return
    if "object" in _types(schema) or "properties" in schema:
        if schema.get("additionalProperties") is not False:
            problem = "'additionalProperties' is required to be supplied and to be false."
            raise _invalid(name, f"In context={place}, {problem}")
        required, properties = schema.get("required", []), schema.get("properties", {})
        lists = isinstance(required, list) and isinstance(properties, dict)
        if not lists or sorted(map(str, required)) != sorted(properties):
            problem = (
                "'required' is required to be supplied and to be an array including every key in properties."
            )
            raise _invalid(name, f"In context={place}, {problem}")
    for keyword in _NESTED_MAPS:
        nested = schema.get(keyword)
        for key, one in nested.items() if isinstance(nested, dict) else ():
            _check_strict(name, one, (*place, keyword, key))
    for keyword in ("items", "anyOf"):
        _check_strict(name, schema.get(keyword), (*place, keyword))


def _types(schema: Json) -> list[Any]:
    kind = schema.get("type")
    return kind if isinstance(kind, list) else [kind]


def _invalid(name: str, problem: str) -> ApiError:
    return bad_request(
        f"Invalid schema for response_format '{name}': {problem}",
        param="response_format",
        code="invalid_json_schema",
    )
