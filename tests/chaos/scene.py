"""What a pipeline gives to its storm: the work, the faults, and who is right in the end."""

from dataclasses import dataclass
from typing import Protocol

SCENES = ("economy_news", "raw_files", "recipes", "context_tags", "recommendations")


@dataclass(frozen=True)
class Calls:
    """Outside calls, from the stand-ins' own accounts.

    `faults` of those made were answered with a fault; `repeated` asked for what had been answered before.
    """

    made: int
    faults: int
    repeated: int


class Scene(Protocol):
    """One pipeline under the storm. It is pickled for every run: it holds addresses, no open clients.

    Only `arm` and `work` are called in a run's process; everything else in the supervisor, one at a time,
    while Postgres answers. Every method opens its own connections.
    """

    @property
    def name(self) -> str: ...

    @property
    def tick_seconds(self) -> float:
        """How far the database's clock goes forward before each run."""

    @property
    def starts_at(self) -> str | None:
        """Where the database's clock begins (ISO, with its zone); None: at the real time.

        A moment long ago keeps it behind the clocks of stand-ins, whose times are compared with it.
        """

    def blow(self, seed: int) -> None:
        """From now on services answer faults."""

    def calm(self) -> None:
        """No more faults. Before each undisturbed run; what failed for good may be asked for again here."""

    def add_work(self, number: int) -> None:
        """What the world does before run `number` (from 1): new articles, deletions, replaced files."""

    def arm(self, seed: int) -> None:
        """In the run's process: the step of that seed is fatal (`fatal_calls.at_step`)."""

    def work(self, run_id: str, number: int) -> None:
        """In the run's process: one whole run, as the assets do it. An undisturbed one has the number 0."""

    def may_fail_with(self, error: BaseException) -> bool:
        """Whether faults may end a run with this error; that Postgres is gone is known already."""

    def held(self, run_id: str) -> set[str]:
        """Items that the dead run had in hand, each as `kind:id`. Called before `release`."""

    def release(self, run_id: str) -> None:
        """What the run-status sensor does for a run that ended badly (`sensors/run_status.py`)."""

    def done(self, items: set[str]) -> set[str]:
        """Those of them that are final by now, or need nothing more."""

    def waiting(self) -> list[str]:
        """What still waits, in words; empty: all is settled."""

    def judge(self) -> list[str]:
        """Mistakes: lost, doubled, a wrong final state, more money than the ledger says, a text come back."""

    def items(self) -> int:
        """How many there are in the end."""

    def calls(self) -> Calls:
        """Over the whole storm."""
