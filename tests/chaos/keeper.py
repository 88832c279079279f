"""Postgres started anew by a process of its own, which ends it where the supervisor is gone.

Not by the supervisor: a fork waits for the threads of its numerical library, which in the middle of computing
a stand-in's vectors may never end.
"""

from multiprocessing import connection as pipes
from multiprocessing import context
from pathlib import Path

from local_stack.postgres import EmbeddedPostgres


class Keeper:
    """A Postgres that runs again, until `let_go`."""

    def __init__(
        self, fork: "context.ForkServerContext", postgres: EmbeddedPostgres, after_a_crash: bool
    ) -> None:
        """Ends the server, as a crash or as an operator would, and returns when it answers again."""
        self._ours, theirs = fork.Pipe()
        self._process = fork.Process(
            target=_keep, args=(postgres.data_dir, postgres.port, after_a_crash, theirs)
        )
        self._process.start()
        theirs.close()
        self._ours.recv()

    def let_go(self) -> None:
        """The server is shut down unless another has been started since."""
        self._ours.close()
        self._process.join()


def _keep(data_dir: Path, port: int, after_a_crash: bool, pipe: "pipes.Connection[str, str]") -> None:
    postgres = EmbeddedPostgres(data_dir, port)
    if after_a_crash:
        postgres.kill()
    else:
        postgres.stop()
    postgres.start(die_with_parent=True)
    pipe.send("it answers")
    try:
        pipe.recv()
    except EOFError:
        return
