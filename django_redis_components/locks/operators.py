"""Releasing a lock of any holder: a call for operators, not for the code that uses the lock."""

from __future__ import annotations

from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.leasing.calls import ReleaseCall, forced
from django_redis_components.core.leasing.wait_queue import send_releases
from django_redis_components.core.protocol import Flow, arun, run
from django_redis_components.locks.group import GroupScripts
from django_redis_components.locks.lock import PlainScripts
from django_redis_components.locks.readwrite import WRITER, ReadWriteScripts
from django_redis_components.locks.state import inspect_group, inspect_lock, inspect_readwrite, lock_keys


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
    return run(client(using), release_flow(name, token=token, group=group, readwrite=readwrite, author=author))


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
    return await arun(aclient(using), release_flow(name, token=token, group=group, readwrite=readwrite, author=author))


def release_flow(
    name: str, *, token: str | None = None, group: str | None = None, readwrite: bool = False, author: str = ""
) -> Flow[int]:
    """See `force_release`."""
    holders = [token] if token is not None else (yield from _holders(name, group, readwrite))
    return (yield from send_releases([forced(_release(name, holder, group, readwrite), author) for holder in holders]))


def _holders(name: str, group: str | None, readwrite: bool) -> Flow[list[str]]:
    if readwrite:
        state = yield from inspect_readwrite(name)
        return [*([state.writer] if state.writer else []), *state.readers]
    if group is not None:
        scripts = GroupScripts([name], group)
        holder = (yield from inspect_group(scripts.base, scripts.names))[name].holder
    else:
        holder = (yield from inspect_lock(lock_keys(name))).holder
    return [] if holder is None else [holder]


def _release(name: str, token: str, group: str | None, readwrite: bool) -> ReleaseCall:
    if readwrite:
        [call] = ReadWriteScripts(name, WRITER).release(token)  # the script goes by the token's suffix
    elif group is not None:
        [call] = GroupScripts([name], group).release(token)
    else:
        [call] = PlainScripts(name).release(token)
    return call
