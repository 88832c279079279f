"""`python -m local_stack.openai_stand_in --port P --data-dir D`: serves on 127.0.0.1 until a signal."""

import argparse
from pathlib import Path

import uvicorn

from local_stack.openai_stand_in.app import create_app
from local_stack.openai_stand_in.state import StandInState


def server_config(state: StandInState, port: int) -> uvicorn.Config:
    """Loopback only, warnings only; a hanging call holds a stop up for a second at most."""
    return uvicorn.Config(
        create_app(state),
        host="127.0.0.1",
        port=port,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
    )


def main() -> None:
    """Reads the command line and serves."""
    parser = argparse.ArgumentParser(prog="python -m local_stack.openai_stand_in", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--latency-seconds", type=float, default=0.0)
    parser.add_argument("--batch-seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    state = StandInState(
        arguments.data_dir, latency_seconds=arguments.latency_seconds, batch_seconds=arguments.batch_seconds
    )
    try:
        uvicorn.Server(server_config(state, arguments.port)).run()
    except KeyboardInterrupt:
        pass
    finally:
        state.close()


if __name__ == "__main__":
    main()
