"""Sending prepared tasks: one, or many at once, and their state when Redis fails."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from redis.exceptions import RedisError, ResponseError

from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.taskqueue import signals
from django_redis_components.taskqueue.exceptions import PartiallyEnqueued
from django_redis_components.taskqueue.middleware import pipeline
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.routing import (
    Attempt,
    SendingOutcome,
    Steps,
    arun_steps,
    run_steps,
    send_over,
    send_to_any,
)
from django_redis_components.taskqueue.shard_clients import arun_over, run_over
from django_redis_components.taskqueue.shards import home, shards_of
from django_redis_components.taskqueue.store import task_records
from django_redis_components.taskqueue.store.messages import TaskMessage, call_for, first_part
from django_redis_components.taskqueue.store.scripts import ENQUEUE_PLAIN

#: Results of tasks, each with the message that enqueues it.
Prepared = Sequence[tuple[TaskResult, TaskMessage]]


def send_one(result: TaskResult, message: TaskMessage) -> TaskResult:
    """Enqueue one task. This is the most frequent call, so it skips the flow drivers."""
    shard, is_plain = result._shard, False
    if message.nonce:
        shard, reply = run_over(shard.using, task_records.send_over(shards_of(shard.using), shard, message))
        result._shard = shard
    elif message.route:
        reply = _settle(result, message, run_steps(send_to_any([message])))
    elif message.replication:
        reply = shard.run(task_records.send(shard, message))
    else:
        call = call_for(shard, message)
        reply = connections.client(shard.alias).execute(call)
        is_plain = call.script is ENQUEUE_PLAIN
    result._set_accepted(reply, None if is_plain else result.task.options)
    if pipeline.current().after_enqueue or signals.task_enqueued.receivers:
        pipeline.notify_enqueued([result])
    return result


async def asend_one(result: TaskResult, message: TaskMessage) -> TaskResult:
    """See `send_one`."""
    if message.nonce:
        result._shard, reply = await arun_over(
            result.using, task_records.send_over(shards_of(result.using), result._shard, message)
        )
    elif message.route:
        reply = _settle(result, message, await arun_steps(send_to_any([message])))
    else:
        reply = await result._shard.arun(task_records.send(result._shard, message))
    result._set_accepted(reply, result.task.options)
    await pipeline.anotify_enqueued([result])
    return result


def _settle(result: TaskResult, message: TaskMessage, attempt: Attempt) -> task_records.Reply:
    """Record which shard has a task that any might have accepted, and return the reply.

    Raises:
        redis.exceptions.RedisError: none has accepted it, as far as is known.
    """
    result._shard = attempt.shard
    if attempt.is_lost:
        message.route = ()  # sent elsewhere, it could run twice
    if attempt.error is not None:
        raise attempt.error
    [reply] = attempt.replies
    return reply


def send_many(prepared: Prepared) -> list[TaskResult]:
    """Enqueue many tasks of one connection.

    Raises:
        PartiallyEnqueued: Redis failed after it had accepted some tasks, or may have accepted some.
        redis.exceptions.RedisError: Redis failed at the only part, or refused the first one.
    """
    replies: list[task_records.Reply] = []
    error: Exception | None = None
    shard = prepared[0][0]._shard if prepared else home()
    if len(shards_of(shard.using)) > 1:
        accepted, failure = _settle_many(prepared, run_steps(_send_over(prepared)))
        pipeline.notify_enqueued(accepted)
        if failure is not None:
            raise failure[0] from failure[1]
        return [result for result, _ in prepared]
    try:
        shard.run(task_records.send_many(shard, [message for _, message in prepared], replies))
    except (RedisError, RedisComponentsError) as exc:
        error = exc
    pipeline.notify_enqueued(set_accepted(prepared, replies))
    if error is not None:
        raise _failure(prepared, len(replies), error) from error
    return [result for result, _ in prepared]


async def asend_many(prepared: Prepared) -> list[TaskResult]:
    """See `send_many`."""
    replies: list[task_records.Reply] = []
    error: Exception | None = None
    shard = prepared[0][0]._shard if prepared else home()
    if len(shards_of(shard.using)) > 1:
        accepted, failure = _settle_many(prepared, await arun_steps(_send_over(prepared)))
        await pipeline.anotify_enqueued(accepted)
        if failure is not None:
            raise failure[0] from failure[1]
        return [result for result, _ in prepared]
    try:
        await shard.arun(task_records.send_many(shard, [message for _, message in prepared], replies))
    except (RedisError, RedisComponentsError) as exc:
        error = exc
    await pipeline.anotify_enqueued(set_accepted(prepared, replies))
    if error is not None:
        raise _failure(prepared, len(replies), error) from error
    return [result for result, _ in prepared]


def _send_over(prepared: Prepared) -> Steps[SendingOutcome]:
    return send_over([message for _, message in prepared], [result._shard for result, _ in prepared])


def _settle_many(
    prepared: Prepared, outcome: SendingOutcome
) -> tuple[list[TaskResult], tuple[Exception, Exception | None] | None]:
    """Record the outcome of tasks that were sent to several shards.

    Returns:
        The results of those that were accepted; and the error of `send_many` with its cause, None without one.
    """
    for number, shard in outcome.shards.items():
        prepared[number][0]._shard = shard
    for number, reply in outcome.replies.items():
        result = prepared[number][0]
        result._set_accepted(reply, result.task.options)
    accepted = [prepared[number][0] for number in sorted(outcome.replies)]
    if outcome.error is None:
        return accepted, None
    for number in outcome.unconfirmed:
        prepared[number][1].route = ()  # sent elsewhere, it could run twice
    if not accepted and len(outcome.unconfirmed) in (0, len(prepared)):
        return accepted, (outcome.error, None)
    rest = [number for number in range(len(prepared)) if number not in outcome.replies]
    again = [prepared[number] for number in rest]
    error = PartiallyEnqueued(
        accepted=accepted,
        unconfirmed=[prepared[number][0] for number in rest if number in outcome.unconfirmed],
        not_sent=[prepared[number][0] for number in rest if number not in outcome.unconfirmed],
        resend=partial(send_many, again),
        aresend=partial(asend_many, again),
    )
    return accepted, (error, outcome.error)


def set_accepted(prepared: Prepared, replies: Sequence[task_records.Reply]) -> list[TaskResult]:
    """Record that Redis accepted the first tasks, and return their results."""
    results = [result for result, _ in prepared[: len(replies)]]
    for result, reply in zip(results, replies, strict=True):
        result._set_accepted(reply, result.task.options)
    return results


def _failure(prepared: Prepared, count: int, error: Exception) -> Exception:
    """The error of `send_many` after `count` tasks were accepted."""
    rest = prepared[count:]
    # A part that the server answered with an error was not executed; one without an answer may have been.
    part = 0 if isinstance(error, ResponseError) else first_part([message for _, message in rest])
    if not count and part in (0, len(prepared)):
        return error
    results = [result for result, _ in prepared]
    return PartiallyEnqueued(
        accepted=results[:count],
        unconfirmed=results[count : count + part],
        not_sent=results[count + part :],
        resend=partial(send_many, rest),
        aresend=partial(asend_many, rest),
    )
