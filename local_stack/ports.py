"""Loopback ports for the services: free, below the ephemeral range, the same at every start."""

import random
import socket
import time
from collections.abc import Container

LOOPBACK = "127.0.0.1"

# From 32768 up Linux hands ports to outgoing connections at any moment: one chosen
# there was taken between the choice and the server's bind.
FIRST, LAST = 10_001, 32_767


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket() as probe:
        # As the servers do themselves; without it a port in TIME_WAIT looks taken after every restart.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def becomes_free(port: int, seconds: float = 2) -> bool:
    """Whether it is free within that time: a server that was killed just now may hold it a moment longer."""
    deadline = time.monotonic() + seconds
    while not is_free(port):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def choose(taken: Container[int] = ()) -> int:
    """A free port in FIRST..LAST that is not among `taken`. Raises OSError if a thousand draws find none."""
    for _ in range(1000):
        port = random.randint(FIRST, LAST)
        if port not in taken and is_free(port):
            return port
    raise OSError(f"no free port between {FIRST} and {LAST} on {LOOPBACK}")
