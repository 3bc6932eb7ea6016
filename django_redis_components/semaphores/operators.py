"""Releasing permits of any holder: a call for operators, not for the code that uses the semaphore."""

from __future__ import annotations

from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.leasing import operators
from django_redis_components.core.leasing.kind import LeaseKind
from django_redis_components.core.protocol import arun, run
from django_redis_components.semaphores.permits import PermitKind
from django_redis_components.semaphores.semaphore import Semaphore


def force_release(
    semaphore: str | Semaphore, *, token: str | None = None, author: str = "", using: str = "default"
) -> int:
    """Release permits of all holders or of one, and grant them to the first waiters.

    The holder is not interrupted. It learns from `extend`, `release` or a renewal that an operator has released them:
    for an hour the error names the author. The request is sent once: after a connection error it may have
    been executed.

    Args:
        semaphore: the semaphore, or its name.
        token: release the permits of this token only; None: those of up to a hundred holders.
        author: the operator, named in the error of the former holder; cut to 100 bytes.
        using: our connection alias, of a name.

    Returns:
        Number of leases that were released; 0 if nothing was held.

    Raises:
        redis.exceptions.RedisError: the server does not answer.
    """
    alias, kind = _kind(semaphore, using)
    return run(client(alias), operators.force_release(kind.parts(), token, author))


async def aforce_release(
    semaphore: str | Semaphore, *, token: str | None = None, author: str = "", using: str = "default"
) -> int:
    """See `force_release`."""
    alias, kind = _kind(semaphore, using)
    return await arun(aclient(alias), operators.force_release(kind.parts(), token, author))


def _kind(semaphore: str | Semaphore, using: str) -> tuple[str, LeaseKind]:
    """Return the connection, and what is released."""
    if isinstance(semaphore, Semaphore):
        return semaphore.using, semaphore.flows.kind
    return using, PermitKind(semaphore)
