"""Releasing permits of any holder: a call for operators, not for the code that uses the semaphore."""

from __future__ import annotations

from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.leasing import operators
from django_redis_components.core.protocol import arun, run
from django_redis_components.semaphores.permits import PermitKind


def force_release(name: str, *, token: str | None = None, author: str = "", using: str = "default") -> int:
    """Release permits of all holders or of one, and grant them to the first waiters.

    The holder is not interrupted. It learns from `extend`, `release` or a renewal that an operator has released them:
    for an hour the error names the author. The request is sent once: after a connection error it may have
    been executed.

    Args:
        name: of the semaphore.
        token: release the permits of this token only; None: those of up to a hundred holders.
        author: the operator, named in the error of the former holder; cut to 100 bytes.
        using: our connection alias.

    Returns:
        Number of leases that were released; 0 if nothing was held.

    Raises:
        redis.exceptions.RedisError: the server does not answer.
    """
    return run(client(using), operators.force_release(PermitKind(name).parts(), token, author))


async def aforce_release(name: str, *, token: str | None = None, author: str = "", using: str = "default") -> int:
    """See `force_release`."""
    return await arun(aclient(using), operators.force_release(PermitKind(name).parts(), token, author))
