"""`python -m local_stack.mongo_wire --port P --data-dir D`: serves until SIGTERM or Ctrl-C."""

import argparse
import contextlib
import fcntl
import signal
import sys
from pathlib import Path

from local_stack.mongo_wire.server import MongoWireServer


def main() -> None:
    parser = argparse.ArgumentParser(prog="local_stack.mongo_wire", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--data-dir", type=Path, required=True, help="a folder, made if missing")
    arguments = parser.parse_args()
    folder: Path = arguments.data_dir
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        try:
            # Two servers on the same files would hand one claim to two callers.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.exit(f"another server already serves {folder}")
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        with MongoWireServer(arguments.port, folder) as server:
            print(f"listening on 127.0.0.1:{arguments.port}, data in {folder}", flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                server.serve_forever()


if __name__ == "__main__":
    main()
