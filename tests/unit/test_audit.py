"""`make audit` with a pip-audit that is told what to say: a hole fails, silence is no safety."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOLE = "Found 1 known vulnerability in 1 package"

# It knows of the old release, and of what it is told about the lock's.
PIP_AUDIT = """#!/bin/sh
case "$*" in
*/dev/stdin*) grep -q urllib3==1.24.1 && echo "{of_the_old}"; exit {old_exit};;
*requirements.lock*) echo "{of_ours}"; exit {our_exit};;
esac
exit 2
"""


@pytest.fixture
def audited(tmp_path: Path) -> "Audited":
    return Audited(tmp_path)


class Audited:
    """The project's Makefile in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copy(ROOT / "Makefile", folder)
        (folder / "requirements.lock").touch()
        (folder / "pyproject.toml").touch()
        (folder / ".venv" / "bin").mkdir(parents=True)
        (folder / ".venv" / ".installed").touch()

    def __call__(self, of_the_old: str, of_ours: str) -> "subprocess.CompletedProcess[str]":
        said = {
            "of_the_old": of_the_old,
            "old_exit": int(of_the_old == HOLE),
            "of_ours": of_ours,
            "our_exit": int(of_ours == HOLE),
        }
        program = self.folder / ".venv" / "bin" / "pip-audit"
        program.write_text(PIP_AUDIT.format(**said))
        program.chmod(0o755)
        return subprocess.run(
            ["make", "--no-print-directory", "audit"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )


def test_a_known_hole_in_what_we_depend_on_fails(audited: Audited) -> None:
    done = audited(HOLE, HOLE)
    assert done.returncode != 0 and HOLE in done.stdout


def test_nothing_known_of_ours_passes_where_the_registry_knows_of_the_old_release(audited: Audited) -> None:
    done = audited(HOLE, "No known vulnerabilities found")
    assert (done.returncode, done.stdout) == (0, "No known vulnerabilities found\n")


def test_a_registry_that_knows_of_no_hole_at_all_is_said_to_have_audited_nothing(audited: Audited) -> None:
    done = audited("No known vulnerabilities found", "No known vulnerabilities found")
    assert done.returncode == 0 and "nothing was audited" in done.stdout


def test_ci_audits() -> None:
    assert "make audit" in (ROOT / ".ci" / "run").read_text()
