"""Runs the site: `python -m local_stack.naver_site --port 8010 [--delay-seconds 0.2]`."""

import argparse
from contextlib import suppress

from local_stack.naver_site.app import site_server
from local_stack.naver_site.state import SiteState


def main() -> None:
    parser = argparse.ArgumentParser(
        description="A news site like Naver's, on 127.0.0.1, with invented articles."
    )
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--delay-seconds", type=float, default=0.0, help="added to every page")
    arguments = parser.parse_args()
    server, bound = site_server(SiteState(delay_seconds=arguments.delay_seconds), arguments.port)
    with suppress(KeyboardInterrupt):
        server.run(sockets=[bound])


if __name__ == "__main__":
    main()
