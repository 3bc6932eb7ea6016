"""Releasing a lock of any holder: a call for operators, not for the code that uses the lock."""

from __future__ import annotations

from collections.abc import Sequence

from django_redis_components.core.arguments import check_flag
from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.leasing import operators
from django_redis_components.core.leasing.scripted_kind import ScriptedKind
from django_redis_components.core.protocol import arun, run
from django_redis_components.locks.base import BaseLock
from django_redis_components.locks.group import GroupKind
from django_redis_components.locks.lock import PlainKind
from django_redis_components.locks.readwrite import ReadWriteKind, ReadWriteLock


def force_release(
    lock: str | BaseLock | ReadWriteLock,
    *,
    token: str | None = None,
    group: str | None = None,
    readwrite: bool = False,
    author: str = "",
    using: str = "default",
) -> int:
    """Release a lock of any holder, and grant it to the first waiter.

    The holder is not interrupted. It learns from `extend`, `release` or a renewal that an operator has released the
    lock: for an hour the error names the author. Writes under its fencing token are rejected once a later holder has
    written. The request is sent once: after a connection error it may have been executed.

    Args:
        lock: the lock, or its name. A `MultiLock` is all of its names, a side of a `ReadWriteLock` both sides.
        token: release it only if this token still holds it; None: the current holder.
        group: of a name of a `MultiLock` with a group.
        readwrite: whether the name is that of a `ReadWriteLock`. Without a token the writer and up to a hundred readers
            are released.
        author: the operator, named in the error of the former holder; cut to 100 bytes.
        using: our connection alias, of a name.

    Returns:
        Number of leases that were released; 0 if nothing was held.

    Raises:
        redis.exceptions.RedisError: the server does not answer.
    """
    alias, parts = _parts(lock, group, readwrite, using)
    return run(client(alias), operators.force_release(parts, token, author))


async def aforce_release(
    lock: str | BaseLock | ReadWriteLock,
    *,
    token: str | None = None,
    group: str | None = None,
    readwrite: bool = False,
    author: str = "",
    using: str = "default",
) -> int:
    """See `force_release`."""
    alias, parts = _parts(lock, group, readwrite, using)
    return await arun(aclient(alias), operators.force_release(parts, token, author))


def _parts(
    lock: str | BaseLock | ReadWriteLock, group: str | None, readwrite: bool, using: str
) -> tuple[str, Sequence[ScriptedKind]]:
    """Return the connection, and what is released."""
    if isinstance(lock, ReadWriteLock):
        lock = lock.write()
    if isinstance(lock, BaseLock):
        return lock.using, lock.flows.kind.parts()
    if check_flag(readwrite, "readwrite"):
        return using, ReadWriteKind(lock).parts()
    return using, (PlainKind(lock) if group is None else GroupKind([lock], group)).parts()
