"""As much of PromQL as tells which metrics and labels an expression asks for."""

import re
from dataclasses import dataclass, field

_WORDS = frozenset({"and", "or", "unless", "bool", "offset", "inf", "nan", "atan2"})
_LABEL_LISTS = re.compile(r"\b(by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)")
_RANGES = re.compile(r"\[[^\]]*\]")
_SELECTOR = re.compile(r"(?<![\w.])([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{[^}]*\}|\()?")
_MATCHER = re.compile(r'\s*([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*"([^"]*)"\s*(?:,|$)')


@dataclass
class Asked:
    """Metrics, with the labels and the values that each is matched by, and the labels that are grouped by."""

    metrics: dict[str, dict[str, set[str]]] = field(default_factory=dict)
    grouped_by: set[str] = field(default_factory=set)


def asked_by(expression: str) -> Asked:
    """What the expression asks for. Raises ValueError where a matcher cannot be read."""
    asked = Asked()
    for _, labels in _LABEL_LISTS.findall(expression):
        asked.grouped_by |= {label.strip() for label in labels.split(",") if label.strip()}
    plain = _RANGES.sub("", _LABEL_LISTS.sub(" ", expression))
    for name, rest in _SELECTOR.findall(plain):
        if rest != "(" and name not in _WORDS:
            matched = asked.metrics.setdefault(name, {})
            for label, values in _matchers(rest.strip("{}")).items():
                matched.setdefault(label, set()).update(values)
    return asked


def _matchers(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    end = 0
    for matcher in _MATCHER.finditer(text):
        if matcher.start() != end:
            break
        label, operator, value = matcher.groups()
        found[label] = set(value.split("|")) if "~" in operator else {value}
        end = matcher.end()
    if text[end:].strip():
        raise ValueError(f"not a matcher: {text[end:]}")
    return found
