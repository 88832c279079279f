"""Markdown in metadata holds no markup from outside: who writes any, and what escapes its texts."""

import ast

from tests.unit.project_modules import PRODUCTION, modules, relative

WRITES_MARKDOWN = {
    "assets/economy_news/checks.py": "ids and numbers alone",
    "assets/economy_news/partition_metadata.py": "ids, kinds, statuses and codes alone",
    "assets/raw_files/assets.py": "daily_report.as_markdown (test_daily_report.py)",
    "assets/raw_files/checks.py": "markdown_text.escaped (test_checks.py)",
    "operations/jobs.py": "markdown() of a history (test_item_history.py) and a quote (test_quote_answer.py)",
}


def writes_markdown(source: str) -> bool:
    return any(
        (isinstance(node, ast.Attribute) and node.attr == "md")
        or (isinstance(node, ast.Attribute | ast.Name) and "MarkdownMetadataValue" in ast.unparse(node))
        for node in ast.walk(ast.parse(source))
    )


def test_only_the_modules_named_here_write_markdown() -> None:
    found = {relative(path) for path in modules(*PRODUCTION) if writes_markdown(path.read_text("utf-8"))}
    assert found == set(WRITES_MARKDOWN)


def test_markdown_is_found_however_it_is_written() -> None:
    assert writes_markdown("dg.MetadataValue.md(text)")
    assert writes_markdown("dg.MarkdownMetadataValue(text)")
    assert not writes_markdown("dg.MetadataValue.text(text)")
