"""`atomic_update` and its asyncio twin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.protocol import arun, run
from django_redis_components.core.units import Seconds
from django_redis_components.transactions.flow import Transaction
from django_redis_components.transactions.options import parse_options, refuse_coroutine
from django_redis_components.transactions.pipes import AsyncPipe, Pipe

T = TypeVar("T")


def atomic_update(
    func: Callable[[Pipe], T],
    *keys: str | bytes,
    max_attempts: int = 16,
    timeout: Seconds = 5.0,
    lock_after: int | None = None,
    using: str = "default",
) -> T:
    """Read, decide and write atomically: WATCH, `func`, MULTI, EXEC.

    `func` reads with the pipe, calls ``pipe.multi()`` and queues its writes. If another client changes a watched key
    meanwhile, nothing is written and `func` is called again: its other side effects must be idempotent.

    Args:
        func: takes a pipe of redis-py. Replies to reads are bytes.
        keys: full names of the keys to watch; on a Cluster, all in one slot.
        max_attempts: maximum number of calls of `func`.
        timeout: seconds after which no attempt starts.
        lock_after: number of conflicts after which the caller acquires a lock of these keys; None never does.
        using: connection alias.

    Returns:
        The return value of `func` in the attempt that was executed. (Not the replies to its writes: a lost reply to
        EXEC loses them.)

    Raises:
        TooMuchContention: `max_attempts` or `timeout` is exhausted; nothing was written.
        OutcomeUnknown: the reply to EXEC was lost, and the server did not answer within the timeout.
        redis.exceptions.RedisError: an error reply to a command, or the last error of the connection. A queued command
            that fails does not undo the others.
        TypeError, ValueError: an argument is not accepted, or the keys are in different slots.
    """
    options = parse_options(func, keys, max_attempts, timeout, lock_after, using)
    refuse_coroutine(func)
    value: T = run(client(using), Transaction(options, func).run())
    return value


@overload
async def aatomic_update(
    func: Callable[[AsyncPipe], Awaitable[T]],
    *keys: str | bytes,
    max_attempts: int = 16,
    timeout: Seconds = 5.0,  # noqa: ASYNC109
    lock_after: int | None = None,
    using: str = "default",
) -> T: ...
@overload
async def aatomic_update(
    func: Callable[[AsyncPipe], T],
    *keys: str | bytes,
    max_attempts: int = 16,
    timeout: Seconds = 5.0,  # noqa: ASYNC109
    lock_after: int | None = None,
    using: str = "default",
) -> T: ...
async def aatomic_update(
    func: Callable[[AsyncPipe], Awaitable[T] | T],
    *keys: str | bytes,
    max_attempts: int = 16,
    timeout: Seconds = 5.0,  # noqa: ASYNC109
    lock_after: int | None = None,
    using: str = "default",
) -> T:
    """See `atomic_update`. `func` is a coroutine function: reads are awaited, queued writes are not."""
    options = parse_options(func, keys, max_attempts, timeout, lock_after, using)
    value: T = await arun(aclient(using), Transaction(options, func).run())
    return value
