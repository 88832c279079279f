"""The project's own modules, for tests that read them as text."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCTION = ("orchestration", "assets", "resources", "sensors", "api", "operations")
"""What runs where Granary is in use, whatever else is installed beside it."""


def modules(*folders: str) -> list[Path]:
    """Every module below these folders, sorted."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def relative(path: Path) -> str:
    """As the tests name it, from the project's root on."""
    return path.relative_to(ROOT).as_posix()
