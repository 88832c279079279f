"""Runs the stand-in: `python -m local_stack.recipe_api --port 8020`."""

import argparse
from contextlib import suppress

from local_stack.recipe_api.app import api_server
from local_stack.recipe_api.state import ApiState


def main() -> None:
    parser = argparse.ArgumentParser(
        description="The open API of recipes, on 127.0.0.1, with invented recipes and the key granary-demo."
    )
    parser.add_argument("--port", type=int, required=True)
    server, bound = api_server(ApiState(), parser.parse_args().port)
    with suppress(KeyboardInterrupt):
        server.run(sockets=[bound])


if __name__ == "__main__":
    main()
