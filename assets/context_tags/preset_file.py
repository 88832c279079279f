"""The preset file: the keywords that contexts are tagged with, as YAML with a `version` at its top.

A file with any fault is refused whole, so that a slip of the pen cannot take keywords out of use.
"""

import re
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from assets.context_tags.models import Preset
from assets.context_tags.request_text import is_storable

OWN_FILE = Path(__file__).with_name("presets.yaml")
MOST_BYTES = 256 * 1024
MOST_VERSION = 2**31 - 1
FIRST_ID = {"COMPANION": 100, "ACTIVITY": 200, "ATMOSPHERE": 300, "SITUATION": 400}
VISIBILITIES = ("PUBLIC", "PRIVATE_ONLY", "BLOCKED")
MOST_CHARACTERS = {"code": 50, "display_name": 50, "category": 30}
REQUIRED = ("id", "code", "display_name", "category", "description", "examples")


class PresetFileRefused(ValueError):
    """The file cannot be used; nothing was changed. One line that names the place and the remedy."""


@dataclass(frozen=True, slots=True)
class PresetFile:
    """A preset file that was read. `version`: what is recorded with every judgement."""

    version: int
    presets: tuple[Preset, ...]


def read_presets(text: str) -> PresetFile:
    """The presets in the order of the file, texts trimmed. Raises PresetFileRefused for anything unclear.

    Lengths are in characters. An id lies in the block of its category (COMPANION 1xx, ACTIVITY 2xx,
    ATMOSPHERE 3xx, SITUATION 4xx). `visibility` may be left out (PUBLIC), every other field may not.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise _refused("size", f"must be at most {MOST_BYTES} bytes")
    content = _read_yaml(text)
    if content is None:
        raise _refused("top", "is empty; give a version and presets")
    if not isinstance(content, dict):
        raise _refused("top", "must be a mapping with version and presets")
    _refuse_unknown("top", content, ("version", "presets"))
    version: Any = content.get("version")
    items: Any = content.get("presets")
    if not _is_whole(version) or not 1 <= version <= MOST_VERSION:
        raise _refused("version", "give a whole number of 1 or more, raised with every change")
    if not isinstance(items, list) or not items:
        raise _refused("presets", "give a list of at least one preset")
    presets = tuple(_preset(number, item) for number, item in enumerate(items, 1))
    _refuse_repeated(presets)
    return PresetFile(version, presets)


def embedding_text(preset: Preset) -> str:
    """What a preset's vector is made of; without the display_name, so that renaming embeds nothing."""
    return "\n".join((preset.description, *preset.examples))


def _refused(place: str, remedy: str) -> PresetFileRefused:
    return PresetFileRefused(re.sub(r"\s+", " ", f"preset file, {place}: {remedy}")[:300])


class _PlainYaml(yaml.SafeLoader):
    """Takes no tags, no `<<` (a few lines of it copy more than memory holds), and no key that stands twice,
    of which YAML would silently keep the last."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None) is not None:
            raise yaml.MarkedYAMLError(problem="it has a tag", problem_mark=event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(set(names)) != len(names) or "<<" in names:
            raise yaml.MarkedYAMLError(problem="a key is << or stands twice", problem_mark=node.start_mark)
        return super().construct_mapping(node, deep)


def _read_yaml(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_PlainYaml)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}" if mark else "YAML"
        raise _refused(place, f"is not the YAML of presets ({error.problem})") from None
    except yaml.YAMLError:
        raise _refused("characters", "holds some that YAML does not allow, such as NUL") from None
    except (ValueError, OverflowError):
        raise _refused("values", "holds a number or date that cannot be; quote texts") from None
    except RecursionError:
        raise _refused("nesting", "is too deep; give a list of presets") from None


def _preset(number: int, item: Any) -> Preset:
    place = f"preset {number}"
    if not isinstance(item, dict):
        raise _refused(place, f"must be a mapping with {', '.join(REQUIRED)}")
    _refuse_unknown(place, item, (*REQUIRED, "visibility"))
    missing = [name for name in REQUIRED if name not in item]
    if missing:
        raise _refused(place, f"give {', '.join(missing)}")
    category = _text(place, "category", item["category"])
    if category not in FIRST_ID:
        raise _refused(f"{place}, category", f"must be one of {', '.join(FIRST_ID)}")
    visibility = item.get("visibility", "PUBLIC")
    if visibility not in VISIBILITIES:
        raise _refused(f"{place}, visibility", f"must be one of {', '.join(VISIBILITIES)}")
    return Preset(
        id=_id(place, category, item["id"]),
        code=_text(place, "code", item["code"]),
        display_name=_text(place, "display_name", item["display_name"]),
        category=category,
        description=_text(place, "description", item["description"]),
        examples=_examples(place, item["examples"]),
        visibility=visibility,
    )


def _id(place: str, category: str, value: Any) -> int:
    first = FIRST_ID[category]
    if not _is_whole(value) or not first <= value < first + 100:
        raise _refused(f"{place}, id", f"{category} takes {first} to {first + 99}")
    return int(value)


def _examples(place: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _refused(f"{place}, examples", "must be a list of texts")
    return tuple(_text(place, "examples", example) for example in value)


def _text(place: str, name: str, value: Any) -> str:
    where = f"{place}, {name}"
    if not isinstance(value, str) or not value.strip():
        raise _refused(where, "must be a text that is not empty; quote it")
    text = value.strip()
    most = MOST_CHARACTERS.get(name)
    if most is not None and len(text) > most:
        raise _refused(where, f"must have at most {most} characters")
    if not is_storable(text):
        raise _refused(where, "must hold no NUL and no half of a surrogate pair")
    return text


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _refuse_unknown(place: str, item: dict[Any, Any], known: tuple[str, ...]) -> None:
    for name in item:
        if name not in known:
            shown = ascii(name[:50]) if isinstance(name, str) else "a key that is no text"
            raise _refused(place, f"{shown} is not known; use {', '.join(known)}")


def _refuse_repeated(presets: tuple[Preset, ...]) -> None:
    ids: dict[int, int] = {}
    codes: dict[str, int] = {}
    for number, preset in enumerate(presets, 1):
        first = ids.setdefault(preset.id, number)
        if first != number:
            raise _refused(f"preset {number}, id", f"{preset.id} is preset {first} already")
        first = codes.setdefault(preset.code, number)
        if first != number:
            raise _refused(f"preset {number}, code", f"is the code of preset {first} already")
