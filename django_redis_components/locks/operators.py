"""Releasing a lock of any holder: a call for operators, not for the code that uses the lock."""

from __future__ import annotations

from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.leasing import operators
from django_redis_components.core.leasing.scripted_kind import ScriptedKind
from django_redis_components.core.protocol import arun, run
from django_redis_components.locks.group import GroupKind
from django_redis_components.locks.lock import PlainKind
from django_redis_components.locks.readwrite import ReadWriteKind


def force_release(
    name: str,
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
        name: of the lock.
        token: release it only if this token still holds it; None: the current holder.
        group: of a name of a `MultiLock` with a group.
        readwrite: the name is that of a `ReadWriteLock`. Without a token the writer and up to a hundred readers are
            released.
        author: the operator, named in the error of the former holder; cut to 100 bytes.
        using: our connection alias.

    Returns:
        Number of leases that were released; 0 if nothing was held.

    Raises:
        redis.exceptions.RedisError: the server does not answer.
    """
    return run(client(using), operators.force_release(_kind(name, group, readwrite).parts(), token, author))


async def aforce_release(
    name: str,
    *,
    token: str | None = None,
    group: str | None = None,
    readwrite: bool = False,
    author: str = "",
    using: str = "default",
) -> int:
    """See `force_release`."""
    return await arun(aclient(using), operators.force_release(_kind(name, group, readwrite).parts(), token, author))


def _kind(name: str, group: str | None, readwrite: bool) -> ScriptedKind:
    if readwrite:
        return ReadWriteKind(name)
    return PlainKind(name) if group is None else GroupKind([name], group)
