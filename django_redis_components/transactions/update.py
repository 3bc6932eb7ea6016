"""`atomic_update` and its twin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.protocol import arun, run
from django_redis_components.core.units import Seconds
from django_redis_components.transactions.flow import Update
from django_redis_components.transactions.pipes import AsyncPipe, Pipe
from django_redis_components.transactions.settings import planned, refuse_coroutine

T = TypeVar("T")


def atomic_update(
    func: Callable[[Pipe], T],
    *keys: str | bytes,
    attempts: int = 16,
    deadline: Seconds = 5.0,
    lock_after: int | None = None,
    using: str = "default",
) -> T:
    """Read, decide and write as if nobody else were there: WATCH, `func`, MULTI, EXEC.

    `func` reads with the pipe, calls ``pipe.multi()`` and queues its writes. If somebody else changes one
    of the keys meanwhile, nothing is written and `func` is called again: it must not do anything else that
    may not be done twice.

    Args:
        func: takes the pipe, which is redis-py's. Replies to reads are bytes.
        keys: what is watched, as it stands in Redis; on a Cluster, all in one slot.
        attempts: how often `func` is called at most.
        deadline: seconds after which no new attempt begins.
        lock_after: after so many conflicts stand in line for a lock of these keys; None never.
        using: our connection alias.

    Returns:
        What `func` returned in the attempt that was executed. (Not the replies to its writes: those
        may be lost, while it is known that they were executed.)

    Raises:
        TooMuchContention: attempts or deadline are used up; nothing was written.
        OutcomeUnknown: the reply to EXEC was lost, and the server did not answer until the deadline.
        redis.exceptions.RedisError: what the server said of a command, or the last error of the
            connection. An error of a queued command on a wrong type does not undo the others.
        TypeError, ValueError: an argument is not of its kind, or the keys lie in several slots.
    """
    plan = planned(func, keys, attempts, deadline, lock_after, using)
    refuse_coroutine(func)
    value: T = run(client(using), Update(plan, func).run())
    return value


@overload
async def aatomic_update(
    func: Callable[[AsyncPipe], Awaitable[T]],
    *keys: str | bytes,
    attempts: int = 16,
    deadline: Seconds = 5.0,
    lock_after: int | None = None,
    using: str = "default",
) -> T: ...
@overload
async def aatomic_update(
    func: Callable[[AsyncPipe], T],
    *keys: str | bytes,
    attempts: int = 16,
    deadline: Seconds = 5.0,
    lock_after: int | None = None,
    using: str = "default",
) -> T: ...
async def aatomic_update(
    func: Callable[[AsyncPipe], Awaitable[T] | T],
    *keys: str | bytes,
    attempts: int = 16,
    deadline: Seconds = 5.0,
    lock_after: int | None = None,
    using: str = "default",
) -> T:
    """See `atomic_update`. `func` is a coroutine function: reads are awaited, queued writes are not."""
    plan = planned(func, keys, attempts, deadline, lock_after, using)
    value: T = await arun(aclient(using), Update(plan, func).run())
    return value
