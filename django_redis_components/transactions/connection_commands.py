"""Commands that are rejected in a transaction, because its connection returns to a pool afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.exceptions import RedisError

#: Commands that control the transaction. A queued EXEC would execute half of it.
_TRANSACTION = {"MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH"}
#: Commands whose effect on the connection outlasts the transaction: database, user, protocol, cluster mode,
#: subscriptions, replication, prepared statements. (The server rejects SHUTDOWN and SAVE within MULTI. Blocking
#: commands do not block there, so they are allowed.)
_CONNECTION = {
    "SELECT", "AUTH", "HELLO", "RESET", "QUIT", "READONLY", "READWRITE", "ASKING", "HIMPORT",
    "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE",
    "MONITOR", "SYNC", "PSYNC", "REPLCONF",
}  # fmt: skip
_CONNECTION_SUBCOMMANDS = {("SCRIPT", "DEBUG")}
#: Other subcommands of CLIENT change the connection (REPLY, TRACKING, NO-EVICT, SETNAME …), close it, or pause clients.
_ALLOWED_CLIENT_SUBCOMMANDS = {"ID", "INFO", "LIST", "GETNAME", "GETREDIR", "TRACKINGINFO", "HELP"}


def refuse_connection_command(command: Sequence[Any]) -> None:
    """Raise for a command that would change the connection or the transaction.

    Raises:
        redis.exceptions.RedisError: the command is not allowed.
    """
    name = text_of(command[0]).upper()
    subcommand = text_of(command[1]).upper() if len(command) > 1 else ""
    if name in _TRANSACTION:
        raise RedisError(f"{name} is not allowed: atomic_update() sends WATCH, MULTI and EXEC itself.")
    if name == "CLIENT" and subcommand not in _ALLOWED_CLIENT_SUBCOMMANDS:
        name = f"CLIENT {subcommand}".rstrip()
    elif (name, subcommand) in _CONNECTION_SUBCOMMANDS:
        name = f"{name} {subcommand}"
    elif name not in _CONNECTION:
        return
    raise RedisError(
        f"{name} is not allowed in atomic_update(): it changes a connection that returns to the pool. "
        "Set the database, user or name in the URL of the connection; otherwise use a separate client."
    )


def text_of(part: Any) -> str:
    """Return a part of a command as text."""
    return part.decode(errors="replace") if isinstance(part, bytes) else str(part)
