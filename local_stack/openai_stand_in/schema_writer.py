"""Writes an answer to any JSON Schema, from the schema itself and the words of the request.

Known keywords: type (also a list of types), properties, items, enum, const, anyOf, oneOf, allOf, $ref,
$defs, minItems, maxItems, minLength, maxLength, format (dates, times, uri, email, uuid), minimum, maximum,
their exclusive forms, multipleOf.
"""

import math
from dataclasses import dataclass
from typing import Any

from local_stack.openai_stand_in.calls import Call, Json, fraction_of, sha256_of
from local_stack.openai_stand_in.sentences import sentences_of

# Below this depth optional branches of recursive schemas end.
_DEEP = 6
_HOPELESS = 40

_FORMATS = {
    "date": "2026-01-15",
    "date-time": "2026-01-15T09:00:00+09:00",
    "time": "09:00:00+09:00",
    "email": "reader@example.com",
    "uri": "https://example.com/",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
}


def write_by_schema(call: Call) -> Any:
    """An instance of the schema in the call's response_format; ValueError if it has no finite instance."""
    writer = SchemaWriter.of(call)
    return writer.write(writer.root, "$", 0)


@dataclass(frozen=True)
class SchemaWriter:
    """Writes instances of the parts of one schema; `seed` and the path decide where there is a choice."""

    root: Json
    seed: str
    sentences: list[str]

    @classmethod
    def of(cls, call: Call) -> "SchemaWriter":
        """The writer for the schema in the call's response_format."""
        said = " ".join(call.blocks.values()) or call.text
        schema = call.body["response_format"]["json_schema"]["schema"]
        return cls(schema, call.sha256, sentences_of(said) or ["내용"])

    def write(self, schema: Any, path: str, depth: int) -> Any:
        """An instance of a part of the schema."""
        if depth > _HOPELESS:
            raise ValueError(f"the schema has no finite instance at {path}")
        if schema is True or schema == {}:
            return "내용"
        schema = self.settled(schema, path, depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._pick(schema["enum"], path)
        kind = self.kind(schema, path)
        writer = getattr(self, f"_write_{kind}", None)
        return writer(schema, path, depth) if writer else None

    def settled(self, schema: Json, path: str, depth: int) -> Json:
        """The schema with references followed, allOf merged and one branch of anyOf chosen."""
        for _ in range(_HOPELESS):
            if "$ref" in schema:
                rest = {name: value for name, value in schema.items() if name != "$ref"}
                schema = {**self._resolved(schema["$ref"]), **rest}
            elif "allOf" in schema:
                schema = self._merged(schema)
            elif branches := schema.get("anyOf") or schema.get("oneOf"):
                rest = {name: value for name, value in schema.items() if name not in ("anyOf", "oneOf")}
                schema = {**rest, **self._branch(branches, path, depth)}
            else:
                return schema
        raise ValueError(f"the schema refers to itself at {path}")

    def _resolved(self, reference: str) -> Json:
        target: Any = self.root
        for part in reference.removeprefix("#").strip("/").split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")] if part else target
        return dict(target)

    def _merged(self, schema: Json) -> Json:
        whole: Json = {name: value for name, value in schema.items() if name != "allOf"}
        for part in schema["allOf"]:
            part = self._resolved(part["$ref"]) if "$ref" in part else part
            properties = {**whole.get("properties", {}), **part.get("properties", {})}
            whole = {**whole, **part, **({"properties": properties} if properties else {})}
        return whole

    def _branch(self, branches: list[Json], path: str, depth: int) -> Json:
        if depth > _DEEP:
            plain = [one for one in branches if not {"$ref", "properties", "items"} & one.keys()]
            return (plain or branches)[0]
        telling = [one for one in branches if one.get("type") != "null"]
        return dict(self._pick(telling or branches, path))

    def kind(self, schema: Json, path: str) -> str:
        """The type that a settled part has; of several, one that is not null."""
        kind = schema.get("type")
        if isinstance(kind, list):
            telling = [one for one in kind if one != "null"]
            return str(self._pick(telling or kind, path))
        if kind is None:
            return "object" if "properties" in schema else "array" if "items" in schema else "string"
        return str(kind)

    def _write_object(self, schema: Json, path: str, depth: int) -> Json:
        return {
            name: self.write(one, f"{path}.{name}", depth + 1)
            for name, one in schema.get("properties", {}).items()
            if depth <= _DEEP or name in schema.get("required", ())
        }

    def _write_array(self, schema: Json, path: str, depth: int) -> list[Any]:
        least = schema.get("minItems", 0)
        most = max(least, schema.get("maxItems", max(least, 3)))
        length = least if depth > _DEEP else least + int(self._fraction(path) * (most - least + 1))
        items = schema.get("items", {})
        written = [self.write(items, f"{path}[{place}]", depth + 1) for place in range(length)]
        # Repeats say nothing, and where items are ids or categories they are wrong.
        different = {repr(one): one for one in written}
        return list(different.values()) if len(different) >= least else written

    def _write_string(self, schema: Json, path: str, depth: int) -> str:
        wanted = schema.get("format")
        if wanted == "uuid":
            digest = sha256_of(self.seed + path)
            return "-".join(
                (digest[:8], digest[8:12], f"4{digest[13:16]}", f"8{digest[17:20]}", digest[20:32])
            )
        if wanted in _FORMATS:
            return _FORMATS[wanted]
        text = str(self._pick(self.sentences, path))[: schema.get("maxLength", 80)]
        while len(text) < schema.get("minLength", 0):
            text = f"{text} {text or '내용'}"[: max(schema.get("maxLength", 0), schema["minLength"])]
        return text

    def _write_integer(self, schema: Json, path: str, depth: int) -> int:
        step = max(1, int(schema.get("multipleOf", 1)))
        low, high = _bounds(schema, default_width=9 * step)
        first = math.floor(low / step) + 1 if "exclusiveMinimum" in schema else math.ceil(low / step)
        last = math.ceil(high / step) - 1 if "exclusiveMaximum" in schema else math.floor(high / step)
        return step * (first + int(self._fraction(path) * (last - first + 1)))

    def _write_number(self, schema: Json, path: str, depth: int) -> float:
        low, high = _bounds(schema, default_width=1)
        # Between a tenth and nine tenths of the range, so that exclusive bounds hold.
        value = low + (high - low) * (0.1 + 0.8 * self._fraction(path))
        if step := schema.get("multipleOf"):
            return float(round(value / step) * step)
        return round(value, 3) if high - low >= 0.1 else value

    def _write_boolean(self, schema: Json, path: str, depth: int) -> bool:
        return self._fraction(path) < 0.5

    def _pick(self, choices: list[Any], path: str) -> Any:
        return choices[int(self._fraction(path) * len(choices))]

    def _fraction(self, path: str) -> float:
        return fraction_of(f"{self.seed}{path}")


def _bounds(schema: Json, default_width: float) -> tuple[float, float]:
    """The least and greatest number allowed (or just not allowed); without bounds, from 0 up."""
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is None:
        low = 0.0 if high is None else min(0.0, high - default_width)
    return float(low), float(low + default_width if high is None else high)
