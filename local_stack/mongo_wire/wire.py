"""MongoDB's wire format: OP_MSG, and the legacy OP_QUERY that drivers open a connection with.

https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/
"""

import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import bson

MAX_MESSAGE_BYTES = 48_000_000

_HEADER = struct.Struct("<iiii")  # length, request id, response to, operation
_OP_REPLY, _OP_QUERY, _OP_MSG = 1, 2004, 2013
_CHECKSUM_PRESENT, _MORE_TO_COME = 1, 2


class WireError(Exception):
    """The bytes are no message this server understands; the connection cannot go on."""


class Stream(Protocol):
    """Whatever bytes come from."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class Request:
    """One command as it came: its name is the first key, `$db` its database."""

    id: int
    command: dict[str, Any]
    wants_reply: bool = True
    legacy: bool = False


def read_request(stream: Stream) -> Request | None:
    """The next request, or None when the client has hung up. Raises WireError."""
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    length, request_id, _, operation = _HEADER.unpack(header)
    if not _HEADER.size < length <= MAX_MESSAGE_BYTES:
        raise WireError(f"message of {length} bytes")
    body = stream.read(length - _HEADER.size)
    if len(body) < length - _HEADER.size:
        return None
    try:
        if operation == _OP_MSG:
            return _read_msg(request_id, body)
        if operation == _OP_QUERY:
            return _read_query(request_id, body)
    except (bson.errors.BSONError, struct.error, ValueError, IndexError) as error:
        raise WireError(f"malformed message: {error}") from error
    raise WireError(f"operation {operation} is not supported")


def _read_msg(request_id: int, body: bytes) -> Request:
    (flags,) = struct.unpack_from("<I", body)
    end = len(body) - (4 if flags & _CHECKSUM_PRESENT else 0)
    command: dict[str, Any] = {}
    sequences: dict[str, list[dict[str, Any]]] = {}
    position = 4
    while position < end:
        kind, position = body[position], position + 1
        (size,) = struct.unpack_from("<i", body, position)
        if size < 5 or position + size > end:
            raise WireError("a section is longer than its message")
        section = body[position : position + size]
        if kind == 0:
            command = bson.decode(section)
        elif kind == 1:
            name_end = section.index(b"\0", 4)
            sequences[section[4:name_end].decode()] = bson.decode_all(section[name_end + 1 :])
        else:
            raise WireError(f"section kind {kind}")
        position += size
    if not command:
        raise WireError("a message without a command")
    return Request(request_id, {**command, **sequences}, wants_reply=not flags & _MORE_TO_COME)


def _read_query(request_id: int, body: bytes) -> Request:
    name_end = body.index(b"\0", 4)
    database = body[4:name_end].decode().partition(".")[0]
    start = name_end + 1 + 8
    (size,) = struct.unpack_from("<i", body, start)
    command = bson.decode(body[start : start + size])
    if not command:
        raise WireError("a query without a command")
    return Request(request_id, {**command, "$db": database}, legacy=True)


def encode_reply(request: Request, document: Mapping[str, Any]) -> bytes:
    """The bytes that answer the request."""
    encoded = bson.encode(document)
    if request.legacy:
        operation, body = _OP_REPLY, struct.pack("<iqii", 8, 0, 0, 1) + encoded
    else:
        operation, body = _OP_MSG, struct.pack("<IB", 0, 0) + encoded
    return _HEADER.pack(_HEADER.size + len(body), request.id, request.id, operation) + body


def ask(port: int, command: Mapping[str, Any], timeout: float = 2) -> dict[str, Any]:
    """Sends one command to a server on loopback; its reply. `timeout` is in seconds.

    For "are you there?": pymongo takes half a second to import. Raises OSError or WireError.
    """
    body = struct.pack("<IB", 0, 0) + bson.encode(command)
    with socket.create_connection(("127.0.0.1", port), timeout) as connection:
        connection.sendall(_HEADER.pack(_HEADER.size + len(body), 1, 0, _OP_MSG) + body)
        with connection.makefile("rb") as stream:
            reply = read_request(stream)  # a reply has the form of a request
    if reply is None:
        raise WireError("the server hung up")
    return reply.command
