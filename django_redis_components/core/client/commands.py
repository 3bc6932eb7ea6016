"""Commands to bytes, and the errors of a socket to those of redis-py.

redis-py's `Connection` wraps each request and each reply in ten microseconds and more of checks that a
held connection with one request at a time does not need. `links` and `alinks` write these bytes to
its socket and read with its parser.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import Any

from hiredis import pack_command
from redis.exceptions import ConnectionError, DataError, RedisError, TimeoutError

from django_redis_components.core.exceptions import NotConnected
from django_redis_components.core.protocol import CommandArgs


def pack(wire: CommandArgs) -> bytes:
    """One command in the protocol of Redis.

    hiredis is given text alone. It turns a number into text without asking whether that went well, and a signal
    at that moment, such as Ctrl-C, would end the process with a segmentation fault (seen with hiredis 3.5).

    Raises:
        DataError: a part is not a str, bytes, int or float; nothing was sent.
    """
    texts: list[Any] = [
        part if (kind := part.__class__) is str or kind is bytes else str(part) if kind is int else _text(wire, at)
        for at, part in enumerate(wire)
    ]
    data: bytes = pack_command(tuple(texts))
    return data


def pack_many(wires: Iterable[CommandArgs]) -> bytes:
    """Several commands, one behind the other."""
    return b"".join(map(pack, wires))


def lost(error: Exception, connection: Any) -> RedisError:
    """redis-py's error for one of the socket, with the address in it."""
    if isinstance(error, RedisError) and type(error) not in (ConnectionError, TimeoutError):
        return error  # such as BusyLoadingError, which is an answer
    address = connection._host_error()
    if isinstance(error, TimeoutError | builtins.TimeoutError):
        return TimeoutError(f"{address} did not answer within {connection.socket_timeout:g} s.")
    return ConnectionError(f"{address}: {str(error) or type(error).__name__}")


def not_connected(error: RedisError, connection: Any) -> RedisError:
    """What to raise for an error while connecting: `NotConnected`, unless the error says more."""
    if type(error) not in (ConnectionError, TimeoutError):
        return error
    address, text = connection._host_error(), str(error)
    return NotConnected(text if address in text else f"{address}: {text}")


def _text(wire: CommandArgs, at: int) -> str | bytes:
    """What is sent for a part of a rarer kind."""
    part = wire[at]
    if isinstance(part, str | bytes):
        return part
    if isinstance(part, float):
        return float.__repr__(part)
    if isinstance(part, int) and not isinstance(part, bool):
        return int.__repr__(part)  # an IntEnum
    if isinstance(part, bytearray | memoryview):
        return bytes(part)
    raise DataError(f"Part {at} of {wire[0]} is {part!r}: expected str, bytes, int or float.")
