"""What happens when tasks are sent: their results learn of it, and receivers of `task_enqueued` too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from asgiref.sync import sync_to_async
from redis.exceptions import RedisError, ResponseError

from django_redis_components.core.client import connections
from django_redis_components.core.decorators import without_stop_iteration
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import arun, run
from django_redis_components.taskqueue import signals
from django_redis_components.taskqueue.exceptions import PartiallyEnqueued
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.store import tasks as store
from django_redis_components.taskqueue.store.messages import Message, call_for, first_part

#: Called in tests when tasks were sent and receivers of `task_enqueued` have been called: `testing.inline` runs them.
test_hook: Callable[[], None] | None = None

#: Results of tasks that are to be sent, and the messages that send them.
Prepared = Sequence[tuple[TaskResult, Message]]


def accepted(result: TaskResult, reply: store.Reply) -> TaskResult:
    """Note that Redis accepted a task."""
    result._set_accepted(reply, result.task.options)
    if signals.task_enqueued.receivers and not result.is_duplicate:
        signals.tell(signals.task_enqueued, result)
    return result


async def aaccepted(result: TaskResult, reply: store.Reply) -> TaskResult:
    """See `accepted`."""
    result._set_accepted(reply, result.task.options)
    if not result.is_duplicate:
        await signals.atell(signals.task_enqueued, result)
    return result


def sent() -> None:
    """Call the hook of a test, when the results of all tasks that a call sends have been noted."""
    if test_hook is not None:
        test_hook()


async def asent() -> None:
    """See `sent`. Tasks may run in the hook: it is called in the thread that Django keeps for that."""
    if test_hook is not None:
        run_in_the_test = without_stop_iteration(test_hook)
        await sync_to_async(run_in_the_test)()


def send_one(result: TaskResult, using: str, message: Message) -> TaskResult:
    """Send one task. It is the most frequent call: one request with nothing to tidy up needs no flow."""
    reply = connections.client(using).execute(call_for(message))
    accepted(result, reply[0] if message.is_plain else reply)
    if test_hook is not None:
        test_hook()
    return result


async def asend_one(result: TaskResult, using: str, message: Message) -> TaskResult:
    """See `send_one`."""
    await aaccepted(result, await arun(connections.aclient(using), store.send(message)))
    await asent()
    return result


def send_many(prepared: Prepared, using: str) -> list[TaskResult]:
    """Send many calls of a task.

    Raises:
        PartiallyEnqueued: Redis failed, and some tasks are, or may be, accepted.
        redis.exceptions.RedisError: Redis failed at the only part, or accepted nothing.
    """
    replies: list[store.Reply] = []
    error: Exception | None = None
    try:
        run(connections.client(using), store.send_many([message for _, message in prepared], replies))
    except (RedisError, RedisComponentsError) as exc:
        error = exc
    for (result, _), reply in zip(prepared, replies, strict=False):
        accepted(result, reply)
    if error is not None:
        raise _failure(prepared, using, len(replies), error) from error
    sent()
    return [result for result, _ in prepared]


async def asend_many(prepared: Prepared, using: str) -> list[TaskResult]:
    """See `send_many`."""
    replies: list[store.Reply] = []
    error: Exception | None = None
    try:
        await arun(connections.aclient(using), store.send_many([message for _, message in prepared], replies))
    except (RedisError, RedisComponentsError) as exc:
        error = exc
    for (result, _), reply in zip(prepared, replies, strict=False):
        await aaccepted(result, reply)
    if error is not None:
        raise _failure(prepared, using, len(replies), error) from error
    await asent()
    return [result for result, _ in prepared]


def _failure(prepared: Prepared, using: str, count: int, error: Exception) -> Exception:
    """What `send_many` raises when so many tasks are known to be accepted."""
    rest = prepared[count:]
    # What the server answered was not executed; what it did not answer may have been.
    part = 0 if isinstance(error, ResponseError) else first_part([message for _, message in rest])
    if not count and part in (0, len(prepared)):
        return error
    results = [result for result, _ in prepared]
    return PartiallyEnqueued(
        accepted=results[:count],
        unconfirmed=results[count : count + part],
        not_sent=results[count + part :],
        resend=partial(send_many, rest, using),
        aresend=partial(asend_many, rest, using),
    )
