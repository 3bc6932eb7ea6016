"""Commands that must not be sent on the connection of a transaction, which goes back to a pool afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.exceptions import RedisError

#: Commands by which the transaction itself is made. A queued EXEC would run half of it.
_TRANSACTION = {"MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH"}
#: Commands whose effect on the connection outlasts the transaction: database, user, protocol, cluster mode,
#: subscriptions, replication, prepared statements. (The server refuses SHUTDOWN and SAVE within MULTI. Commands that
#: block do not block there, so they are let through.)
_CONNECTION = {
    "SELECT", "AUTH", "HELLO", "RESET", "QUIT", "READONLY", "READWRITE", "ASKING", "HIMPORT",
    "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE",
    "MONITOR", "SYNC", "PSYNC", "REPLCONF",
}  # fmt: skip
_CONNECTION_SUBCOMMANDS = {("SCRIPT", "DEBUG")}
#: All other subcommands of CLIENT change the connection (REPLY, TRACKING, NO-EVICT, SETNAME …), end it, or stop others.
_HARMLESS_OF_CLIENT = {"ID", "INFO", "LIST", "GETNAME", "GETREDIR", "TRACKINGINFO", "HELP"}


def refuse_connection_command(command: Sequence[Any]) -> None:
    """Refuse a command that would change the connection, or the transaction, for what comes after it.

    Raises:
        redis.exceptions.RedisError: it would.
    """
    name = text_of(command[0]).upper()
    subcommand = text_of(command[1]).upper() if len(command) > 1 else ""
    if name in _TRANSACTION:
        raise RedisError(f"{name} is refused: atomic_update() sends MULTI, EXEC and the rest by itself.")
    if name == "CLIENT" and subcommand not in _HARMLESS_OF_CLIENT:
        name = f"CLIENT {subcommand}".rstrip()
    elif (name, subcommand) in _CONNECTION_SUBCOMMANDS:
        name = f"{name} {subcommand}"
    elif name not in _CONNECTION:
        return
    raise RedisError(
        f"{name} is refused in atomic_update(): it changes the connection, which others use afterwards. "
        "Set the database, user or name in the URL of the connection; for the rest take a client of your own."
    )


def text_of(part: Any) -> str:
    """A part of a command as text, to compare it with names."""
    return part.decode(errors="replace") if isinstance(part, bytes) else str(part)
