"""SQL gets its values as parameters, identifiers through `psycopg.sql` (promises, "Security").

Ruff's S608 sees a statement that is put together from strings where it reads like one. This sees the rest:
what is handed to a cursor, to `sql.SQL` or to SQLAlchemy's `text` must stand in the source or in a file of
statements.
"""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.project_modules import PRODUCTION, ROOT, modules, relative

MODULES = modules(*PRODUCTION, "migrations", "local_stack")

TAKES_SQL = {"execute", "executemany", "copy", "SQL", "text"}
KEEPS_TEXT = {"encode", "strip", "lstrip", "rstrip"}
# What makes another text of a text, or bytes of it.
MAKES_TEXT = {
    "format",
    "format_map",
    "join",
    "replace",
    "encode",
    "strip",
    "lstrip",
    "rstrip",
    "removesuffix",
}


def assigned(tree: ast.AST) -> dict[str, list[ast.expr]]:
    """Everything that each name of the module is set to."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(value, ast.expr):
                is_more = isinstance(node, ast.AugAssign)
                found.setdefault(target.id, []).append(
                    ast.BinOp(target, ast.Add(), value) if is_more else value
                )
    return found


def is_put_together(node: ast.expr, names: dict[str, list[ast.expr]], within: frozenset[str]) -> bool:
    """Whether a text is made of parts that may come from anywhere."""
    match node:
        case ast.JoinedStr():
            return any(isinstance(part, ast.FormattedValue) for part in node.values)
        case ast.BinOp(op=ast.Add()):
            return not all(isinstance(side, ast.Constant) for side in (node.left, node.right))
        case ast.BinOp(op=ast.Mod()):
            return True
        case ast.Call(func=ast.Attribute(value=receiver, attr=name)) if name in MAKES_TEXT:
            is_of_psycopg = isinstance(receiver, ast.Call) and called(receiver) == "SQL"
            is_another = name not in KEEPS_TEXT
            return not is_of_psycopg and (is_another or is_put_together(receiver, names, within))
        case ast.Call(func=ast.Name(id="str" | "bytes")):
            return True
        case ast.IfExp():
            return any(is_put_together(one, names, within) for one in (node.body, node.orelse))
        case ast.Name(id=name) if name not in within:
            return any(is_put_together(one, names, within | {name}) for one in names.get(name, []))
    return False


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def put_together(source: str) -> Iterator[str]:
    """The statements of a module that do not stand in it as they are."""
    tree = ast.parse(source)
    names = assigned(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args or called(node) not in TAKES_SQL:
            continue
        statement = node.args[0]
        is_literal = isinstance(statement, ast.Constant)
        # Of psycopg's own the text must be a literal: what is in a variable may have come from anywhere.
        if (called(node) == "SQL" and not is_literal) or is_put_together(statement, names, frozenset()):
            yield ast.unparse(node)[:100]


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_no_statement_is_put_together_from_texts(path: Path) -> None:
    source = path.read_text("utf-8")
    assert list(put_together(source)) == []
    assert "S608" not in source, "the lint is not to be silenced here"


@pytest.mark.parametrize(
    "source",
    [
        'c.execute(f"SELECT {x}")',
        'c.execute(f"ANALYZE {x}".encode())',
        'c.execute("DROP TABLE %s" % x)',
        'c.execute("DROP TABLE " + x)',
        'c.execute("DROP TABLE {}".format(x))',
        'c.execute(" ".join(parts))',
        'statement = f"VACUUM {x}"\nc.execute(statement)',
        'statement = "VACUUM "\nstatement += x\nc.execute(statement)',
        'c.executemany(f"SET x = {x}", rows)',
        'with c.copy(f"COPY {x} FROM STDIN") as copy:\n    pass',
        'c.execute(sql.SQL(f"DROP TABLE {x}"))',
        "c.execute(sql.SQL(statement))",
        "sql.SQL(x).format(sql.Identifier(name))",
        'connection.execute(text(f"SET ROLE {x}"))',
        'c.execute(A if b else f"RESET {x}")',
    ],
)
def test_a_statement_that_is_put_together_is_found(source: str) -> None:
    assert list(put_together(source))


@pytest.mark.parametrize(
    "source",
    [
        'c.execute("SELECT 1")',
        'c.execute(SQL["name"], {"id": id_})',
        '_READ = """SELECT 1"""\nc.execute(_READ, parameters)',
        'c.execute("SELECT 1" " FROM x")',
        'c.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))',
        "for statement in SQL.values():\n    c.execute(statement)",
        "free = catalogue.is_active.copy()",
    ],
)
def test_a_statement_that_stands_there_passes(source: str) -> None:
    assert list(put_together(source)) == []


@pytest.mark.parametrize("folder", ["assets/recipes", "resources", "api", "operations"])
def test_ruff_forbids_f_strings_in_sql_by_the_projects_own_settings(folder: str) -> None:
    ruff = Path(sys.executable).parent / "ruff"
    told = subprocess.run(
        [ruff, "check", "--output-format=json", "--stdin-filename", ROOT / folder / "made_up_store.py", "-"],
        input='def rows(table: str) -> str:\n    return f"SELECT * FROM {table} WHERE id = 1"\n',
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert [one["code"] for one in json.loads(told.stdout)] == ["S608"], told.stderr
