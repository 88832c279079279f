"""Fits what is known to the schema that asks for it: types, bounds and choices are the schema's."""

from collections.abc import Mapping
from typing import Any

from local_stack.openai_stand_in.calls import Call, Json
from local_stack.openai_stand_in.schema_writer import SchemaWriter

_UNKNOWN = object()


def fitted(call: Call, known: Mapping[str, Any]) -> Any:
    """An instance of the call's schema: known properties by their names, the rest written by the schema."""
    writer = SchemaWriter.of(call)
    return _Fitter(writer).fit(writer.root, dict(known), "$", 0)


class _Fitter:
    def __init__(self, writer: SchemaWriter) -> None:
        self._writer = writer

    def fit(self, schema: Any, value: Any, path: str, depth: int) -> Any:
        if value is _UNKNOWN or not isinstance(schema, dict):
            return self._writer.write(schema, path, depth)
        if value is None and _takes_null(schema):
            return None
        whole = self._writer.settled(schema, path, depth)
        if "const" in whole:
            return whole["const"]
        if "enum" in whole:
            chosen = most_alike(value, whole["enum"])
            return self._writer.write(whole, path, depth) if chosen is None else chosen
        fit_kind = getattr(self, f"_fit_{self._writer.kind(whole, path)}", None)
        fitting = fit_kind(whole, value, path, depth) if fit_kind else _UNKNOWN
        return self._writer.write(whole, path, depth) if fitting is _UNKNOWN else fitting

    def _fit_object(self, schema: Json, value: Any, path: str, depth: int) -> Any:
        if not isinstance(value, dict):
            return _UNKNOWN
        return {
            name: self.fit(one, value.get(name, _UNKNOWN), f"{path}.{name}", depth + 1)
            for name, one in schema.get("properties", {}).items()
        }

    def _fit_array(self, schema: Json, value: Any, path: str, depth: int) -> Any:
        values = value if isinstance(value, list) else [value] if value else []
        kept = values[: schema.get("maxItems", len(values))]
        if len(kept) < schema.get("minItems", 0):
            return _UNKNOWN
        items = schema.get("items", {})
        return [self.fit(items, one, f"{path}[{place}]", depth + 1) for place, one in enumerate(kept)]

    def _fit_string(self, schema: Json, value: Any, path: str, depth: int) -> Any:
        text = "\n".join(map(str, value)) if isinstance(value, list) else str("" if value is None else value)
        text = text[: schema.get("maxLength", len(text))]
        return text if len(text) >= schema.get("minLength", 0) else _UNKNOWN

    def _fit_integer(self, schema: Json, value: Any, path: str, depth: int) -> Any:
        number = self._fit_number(schema, value, path, depth)
        return number if number is _UNKNOWN else round(number)

    def _fit_number(self, schema: Json, value: Any, path: str, depth: int) -> Any:
        if not isinstance(value, int | float):
            return _UNKNOWN
        return min(max(value, schema.get("minimum", value)), schema.get("maximum", value))

    def _fit_boolean(self, schema: Json, value: Any, path: str, depth: int) -> Any:
        return bool(value)


def most_alike(value: Any, choices: list[Any]) -> Any:
    """The choice that is the value or shares a word with it, the longest shared first; None if none does."""
    if value in choices:
        return value
    alike = [(len(shared), choice) for choice in choices if (shared := _shared(str(value), str(choice)))]
    return max(alike, key=lambda pair: pair[0])[1] if alike else None


def _shared(one: str, other: str) -> str:
    """The longest word of either that occurs in the other."""
    words = [word for word in _words(one) if word in other] + [word for word in _words(other) if word in one]
    return max(words, key=len, default="")


def _words(text: str) -> list[str]:
    return "".join(letter if letter.isalnum() else " " for letter in text).split()


def _takes_null(schema: Json) -> bool:
    kind = schema.get("type")
    branches = schema.get("anyOf") or schema.get("oneOf") or []
    return (
        kind == "null"
        or (isinstance(kind, list) and "null" in kind)
        or None in schema.get("enum", ())
        or any(isinstance(one, dict) and _takes_null(one) for one in branches)
    )
