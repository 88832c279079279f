"""Runs the sites: `python -m local_stack.front_pages --port 8020`."""

import argparse
from contextlib import suppress

from local_stack.front_pages.app import Seen, front_pages_server


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Front pages of invented .test domains, on 127.0.0.1: some behave, others do not."
    )
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    server, bound = front_pages_server(Seen(), arguments.port)
    with suppress(KeyboardInterrupt):
        server.run(sockets=[bound])


if __name__ == "__main__":
    main()
