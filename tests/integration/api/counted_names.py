"""The counters that the source can count, by name with their labels: read from its syntax, nothing is run.

Whoever counts in a form that is not understood here finds out by AssertionError.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
COUNTING = ("assets", "resources", "sensors", "operations", "api")

Scope = ast.Module | ast.FunctionDef


def counted_names() -> dict[str, set[str]]:
    """Every name as it is exported (`x_total`, `x_sum` and `x_count`), with all labels that it is given."""
    found: dict[str, set[str]] = {}
    for path in source_files():
        module = ast.parse(path.read_text(encoding="utf-8"))
        for call, function in _calls(module):
            for name in _names(call, module, path):
                found.setdefault(name, set()).update(_labels(call, function, path))
    return found


def source_files() -> list[Path]:
    return sorted(path for folder in COUNTING for path in (ROOT / folder).rglob("*.py"))


def _calls(module: ast.Module) -> Iterator[tuple[ast.Call, Scope]]:
    """Each call with the innermost function around it."""

    def inside(node: ast.AST, scope: Scope) -> Iterator[tuple[ast.Call, Scope]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call):
                yield child, scope
            yield from inside(child, child if isinstance(child, ast.FunctionDef) else scope)

    return inside(module, module)


def _names(call: ast.Call, module: ast.Module, path: Path) -> list[str]:
    """The names that the call counts; none where it counts nothing."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("add", "observe") or not call.args:
        return []
    name = _text(call.args[0], module)
    if call.func.attr == "observe":
        if ast.unparse(call.func).startswith("self.add") or path.name == "counters.py":
            return []
        assert name, f"{path.name}:{call.lineno}: the name of what is observed is not to be read"
        return [f"{name}_sum", f"{name}_count"]
    if ast.unparse(call.func.value) in _counters(module) and path.name != "counters.py":
        assert name, f"{path.name}:{call.lineno}: the name of what is counted is not to be read"
        return [name]
    return [name] if name and name.endswith("_total") else []


def _counters(module: ast.Module) -> set[str]:
    """What the module calls its Counts, as `counts` or `self._counts`."""
    known = {"Counts()"}
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == "Counts()":
            known.update(ast.unparse(target) for target in node.targets)
        elif isinstance(node, ast.arg) and node.annotation and ast.unparse(node.annotation) == "Counts":
            known.add(node.arg)
    return known


def _text(node: ast.expr, module: ast.Module) -> str | None:
    """A literal, an f-string of the module's constants, or such a constant."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [_text(part, module) for part in node.values]
        return None if None in parts else "".join(part or "" for part in parts)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, module)
    if isinstance(node, ast.Name):
        for statement in module.body:
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == node.id:
                return _text(statement.value, module)
    return None


def _labels(call: ast.Call, function: Scope, path: Path) -> set[str]:
    labels = {keyword.arg for keyword in call.keywords if keyword.arg}
    for keyword in call.keywords:
        if keyword.arg is None:
            labels |= _keys(keyword.value, function, f"{path.name}:{call.lineno}")
    return labels


def _keys(labels: ast.expr, function: Scope, place: str) -> set[str]:
    """The keys of `**labels`, a dictionary that is written out there or earlier in the function."""
    if isinstance(labels, ast.Name):
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == labels.id:
                return _keys(node.value, function, place)
    assert isinstance(labels, ast.Dict), f"{place}: the labels are not to be read"
    assert all(isinstance(key, ast.Constant) for key in labels.keys), f"{place}: a label is not to be read"
    return {str(key.value) for key in labels.keys if isinstance(key, ast.Constant)}
