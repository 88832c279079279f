"""What the stack remembers in `.local`: `stack.json`, `secrets.json`, and the lock on both."""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from local_stack.errors import StackError
from local_stack.processes import Identity


@dataclass
class State:
    """Ports and processes by service; `root` is where they belong to.

    `dies_with` is the process whose end the kernel ends that service with, if any.
    """

    root: str
    ports: dict[str, int] = field(default_factory=dict)
    processes: dict[str, Identity] = field(default_factory=dict)
    dies_with: dict[str, Identity] = field(default_factory=dict)

    @classmethod
    def load(cls, root: Path) -> "State":
        """The remembered state; an empty one if there is none, or if the folder is another one's copy."""
        path = root / "stack.json"
        try:
            found = json.loads(path.read_text())
            if found["root"] != str(root):
                return cls(str(root))
            processes, dies_with = (
                {name: Identity(**identity) for name, identity in found[of].items()}
                for of in ("processes", "dies_with")
            )
            return cls(found["root"], found["ports"], processes, dies_with)
        except FileNotFoundError:
            return cls(str(root))
        except (ValueError, KeyError, TypeError) as error:
            raise StackError(
                f"{path} cannot be read ({error}). Stop what runs and delete that file."
            ) from error

    def save(self) -> None:
        write_private(Path(self.root) / "stack.json", json.dumps(asdict(self), indent=2) + "\n")

    def process(self, name: str) -> Identity | None:
        """The service's process, if it is alive."""
        identity = self.processes.get(name)
        return identity if identity and identity.process() else None

    def is_leaving(self, name: str) -> bool:
        """Whether the service lives on without the process that it dies with: it ends at any moment."""
        parent = self.dies_with.get(name)
        return self.process(name) is not None and parent is not None and parent.process() is None


@dataclass(frozen=True)
class Secrets:
    """Keys made up for this stack. The password of Postgres lies with its data."""

    aws_access_key_id: str
    aws_secret_access_key: str
    openai_api_key: str
    api_token: str
    admin_token: str
    context_hmac_key: str

    @classmethod
    def load(cls, root: Path) -> "Secrets":
        """The remembered ones; what is missing among them is made and stored at the first call."""
        path = root / "secrets.json"
        fresh = cls._made_up()
        try:
            remembered = json.loads(path.read_text())
            kept = replace(fresh, **{name: remembered[name] for name in asdict(fresh) if name in remembered})
        except (FileNotFoundError, ValueError, TypeError):
            remembered, kept = None, fresh
        if asdict(kept) != remembered:
            write_private(path, json.dumps(asdict(kept), indent=2) + "\n")
        return kept

    @classmethod
    def _made_up(cls) -> "Secrets":
        return cls(
            aws_access_key_id=f"GRANARY{secrets.token_hex(8).upper()}",
            aws_secret_access_key=secrets.token_urlsafe(30),
            openai_api_key=f"sk-local-{secrets.token_urlsafe(24)}",
            api_token=secrets.token_urlsafe(24),
            admin_token=secrets.token_urlsafe(24),
            context_hmac_key=secrets.token_urlsafe(30),
        )


def write_private(path: Path, text: str) -> None:
    """Replaces the file as a whole; nobody but its owner may read it."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    new.replace(path)


@contextmanager
def exclusive(root: Path) -> Iterator[None]:
    """Waits until no other process starts or stops this stack, and keeps others out."""
    with open(root / "lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
