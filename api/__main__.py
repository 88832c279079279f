"""`python -m api --port 8787 --host 127.0.0.1`: serves the HTTP door until a signal."""

import argparse
import gc
import logging
import sys

MOST_CONNECTIONS = 400
"""Open at once, idle ones too; each may hold a body of 256 KiB. One more gets a 503."""


def main() -> None:
    """Reads the command line and serves; a wrong setting ends it with one line."""
    parser = argparse.ArgumentParser(prog="python -m api", description=__doc__)
    parser.add_argument("--port", type=int, default=8787)
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="loopback unless told otherwise; tokens travel in clear, so put a proxy with TLS in front",
    )
    arguments = parser.parse_args()

    # After the command line: these take two seconds that --help need not wait for. The first three are of the
    # first search, which would import them while everybody else waits for an answer.
    import numpy  # noqa: F401
    import openai  # noqa: F401
    import pgvector.psycopg  # noqa: F401
    import uvicorn

    from api.app import app
    from orchestration.settings import SettingsError
    from resources.errors import ServiceNotConfigured

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        door = app()
    except (SettingsError, ServiceNotConfigured) as error:
        sys.exit(str(error))
    # Walking through all that was imported takes a tenth of a second, in which nobody is answered.
    gc.collect()
    gc.freeze()
    uvicorn.run(
        door,
        host=arguments.host,
        port=arguments.port,
        access_log=False,  # the proxy has one; here paths and queries would be kept
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        # Longer than proxies keep theirs: who posts on one that is closed just then gets no answer.
        timeout_keep_alive=75,
        timeout_graceful_shutdown=10,
    )


if __name__ == "__main__":
    main()
