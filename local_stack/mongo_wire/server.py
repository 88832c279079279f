"""The TCP side: a thread a connection, and one thread that runs the commands of all of them."""

import socketserver
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from local_stack.mongo_wire.commands import Commands
from local_stack.mongo_wire.wire import WireError, encode_reply, read_request


class MongoWireServer(socketserver.ThreadingTCPServer):
    """Listens on a loopback port; one command at a time, so that every one of them is atomic."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # the default of 5 drops connections when many pools open at once

    def __init__(self, port: int, folder: Path) -> None:
        self._one_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="commands")
        self._commands = self._one_thread.submit(Commands, folder).result()
        super().__init__(("127.0.0.1", port), _Connection)

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        """The reply to a command, when its turn has come."""
        return self._one_thread.submit(self._commands.run, command).result()

    def server_close(self) -> None:
        super().server_close()
        self._one_thread.submit(self._commands.close).result()
        self._one_thread.shutdown()

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, WireError):
            print(f"{client_address}: {error}; connection closed", file=sys.stderr, flush=True)
        elif not isinstance(error, ConnectionError):
            super().handle_error(request, client_address)


class _Connection(socketserver.StreamRequestHandler):
    server: MongoWireServer
    disable_nagle_algorithm = True

    def handle(self) -> None:
        while request := read_request(self.rfile):
            reply = self.server.answer(request.command)
            if request.wants_reply:
                self.wfile.write(encode_reply(request, reply))
