"""Enqueue tasks: build the message of a call, send it at once or on commit, and report the outcome."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from django.db import DEFAULT_DB_ALIAS, transaction
from redis.exceptions import RedisError, ResponseError

from django_redis_components.core import serialization
from django_redis_components.core.client import connections as client_connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import Batch, Flow, Read
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue import fair_share, limits, origin, outbox, sealing, signals
from django_redis_components.taskqueue.exceptions import InvalidTask, PartiallyEnqueued
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.json_codec import pack
from django_redis_components.taskqueue.middleware import NewTask, pipeline
from django_redis_components.taskqueue.on_commit import alias_in_transaction
from django_redis_components.taskqueue.options import MAX_DELIVERIES, TaskOptions, check_queue, options_to_send
from django_redis_components.taskqueue.record import check_metadata, encode_metadata
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.shard_clients import arun_over, run_over
from django_redis_components.taskqueue.shards import Shard, home, place, shards_of
from django_redis_components.taskqueue.store import task_records
from django_redis_components.taskqueue.store.messages import TaskMessage, call_for, check_size, chunks, first_part
from django_redis_components.taskqueue.store.scripts import ENQUEUE_PLAIN
from django_redis_components.taskqueue.unique import claim_of

#: Results of tasks, each with the message that enqueues it.
Prepared = Sequence[tuple[TaskResult, TaskMessage]]


def prepare(
    task: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    task_id: str = "",
    accepts_id: bool = False,
    body_options: Mapping[str, Any] | None = None,
    gets_result: bool = False,
) -> tuple[TaskResult, TaskMessage]:
    """Validate a call, and build its result and the message that enqueues it.

    Args:
        task_id: empty for a new id.
        accepts_id: whether the call may use the option `id`.
        body_options: sent to the worker beside the arguments.
        gets_result: whether the worker inserts the result of an earlier task before the arguments.

    Raises:
        TypeError, ValueError: the function does not accept the arguments; or they, or new metadata, are not JSON.
        InvalidTask: the arguments are too large, or the option `id` was used for a call that needs a new id.
        UnknownQueue: the site declares its queues, and the task's queue is not one of them.
    """
    options = task.options
    settings = conf.settings().taskqueue
    if settings.queues is not None:
        check_queue(options.queue_name)
    task._check_arguments(args, kwargs, gets_result=gets_result)
    sent: list[Any] = [pack(args, "args"), pack(kwargs, "kwargs") if kwargs else {}]
    extra = {**task._body_options, **body_options} if body_options else task._body_options
    message_id = options.id or task_id or task_records.new_id()
    metadata = options.metadata
    if pipeline.current().before_enqueue:
        new = NewTask(task, message_id, tuple(args), dict(kwargs), {}, dict(metadata or {}))
        extra = {**extra, **pipeline.call_before_enqueue(new)}
        metadata = check_metadata(new.metadata) if new.metadata else None
    if task.overrides or extra:
        sent += filter(None, [options_to_send(options, task.overrides) | dict(extra)])
    body = serialization.encode(sealing.seal(task.name, sent) if options.sealed else sent, "args", "kwargs")
    if len(body) > settings.max_body_bytes:
        check_size(task.name, body)
    if options.id is not None and not accepts_id:
        raise _id_not_accepted(options.id)
    message = TaskMessage(message_id, task.name, options.queue_name, body, origin.current(settings))
    fields = {Field.queue: options.queue_name.encode(), Field.body: body}
    if not options.are_plain:
        _set_options(message, task, *sent[:2])
    if metadata is not None:
        _set_metadata(message, fields, encode_metadata(metadata))
    return TaskResult(task, task.name, message.id, place(options.queue_name, task.connection), fields), message


def _set_metadata(message: TaskMessage, fields: dict[str, bytes], encoded: bytes) -> None:
    fields[Field.metadata] = encoded
    message.extra += (Field.metadata, encoded)


def _id_not_accepted(task_id: str) -> InvalidTask:
    return InvalidTask(
        f"id={task_id!r}: only enqueue() and enqueue_on_commit() accept an id. Flows, schedules and"
        " enqueue_many() create the ids of their tasks."
    )


def send_one(result: TaskResult, message: TaskMessage) -> TaskResult:
    """Enqueue one task. This is the most frequent call, so it skips the flow drivers."""
    shard = result._shard
    if message.nonce:
        shard, reply = run_over(shard.using, task_records.send_over(shards_of(shard.using), shard, message))
        result._shard = shard
    else:
        call = call_for(shard, message)
        reply = shard.client().execute(call)
        if call.script is ENQUEUE_PLAIN:
            reply = reply[0]
    result._set_accepted(reply, result.task.options)
    if pipeline.current().after_enqueue or signals.task_enqueued.receivers:
        pipeline.notify_enqueued([result])
    return result


async def asend_one(result: TaskResult, message: TaskMessage) -> TaskResult:
    """See `send_one`."""
    if message.nonce:
        result._shard, reply = await arun_over(
            result.using, task_records.send_over(shards_of(result.using), result._shard, message)
        )
    else:
        reply = await result._shard.arun(task_records.send(result._shard, message))
    result._set_accepted(reply, result.task.options)
    await pipeline.anotify_enqueued([result])
    return result


def send_many(prepared: Prepared) -> list[TaskResult]:
    """Enqueue many tasks of one shard.

    Raises:
        PartiallyEnqueued: Redis failed after it had accepted some tasks, or may have accepted some.
        redis.exceptions.RedisError: Redis failed at the only part, or refused the first one.
    """
    replies: list[task_records.Reply] = []
    error: Exception | None = None
    shard = prepared[0][0]._shard if prepared else home()
    try:
        shard.run(task_records.send_many(shard, [message for _, message in prepared], replies))
    except (RedisError, RedisComponentsError) as exc:
        error = exc
    pipeline.notify_enqueued(_accepted(prepared, replies))
    if error is not None:
        raise _failure(prepared, len(replies), error) from error
    return [result for result, _ in prepared]


async def asend_many(prepared: Prepared) -> list[TaskResult]:
    """See `send_many`."""
    replies: list[task_records.Reply] = []
    error: Exception | None = None
    shard = prepared[0][0]._shard if prepared else home()
    try:
        await shard.arun(task_records.send_many(shard, [message for _, message in prepared], replies))
    except (RedisError, RedisComponentsError) as exc:
        error = exc
    await pipeline.anotify_enqueued(_accepted(prepared, replies))
    if error is not None:
        raise _failure(prepared, len(replies), error) from error
    return [result for result, _ in prepared]


def _accepted(prepared: Prepared, replies: Sequence[task_records.Reply]) -> list[TaskResult]:
    """Record that Redis accepted the first tasks, and return their results."""
    results = [result for result, _ in prepared[: len(replies)]]
    for result, reply in zip(results, replies, strict=True):
        result._set_accepted(reply, result.task.options)
    return results


class _CommitHook:
    """Enqueues tasks on commit, together with those of the hooks that directly follow it in the same transaction.

    Django calls the hooks in order, and stops at one that raises. So a hook takes the tasks of the next ones up to the
    first that is not its like: a hook of the site, another shard, or a task with an id. Without those between
    them, the tasks of a transaction cost one round trip. A hook of a savepoint that was rolled back is not among them.

    Attributes:
        prepared: the tasks to send; empty after an earlier hook has sent them.
        shard: of the tasks.
        hooks: the list that the database connection takes the hooks from, shared by the hooks of a transaction.
    """

    __slots__ = ("hooks", "prepared", "shard")

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        self.shard = prepared[0][0]._shard
        self.hooks: list[Any] = []

    def __call__(self) -> None:
        prepared, self.prepared = list(self.prepared), ()
        if not prepared:
            return
        if not _has_own_id(prepared):
            for hook in self._following():
                prepared += hook.prepared
                hook.prepared = ()
        self._send(prepared)

    def _send(self, prepared: Prepared) -> None:
        if len(prepared) == 1:
            [(result, message)] = prepared
            send_one(result, message)
        else:
            send_many(prepared)

    def register(self, alias: str) -> None:
        """Register the hook with the database of this alias."""
        earlier = [entry[1] for entry in transaction.get_connection(alias).run_on_commit[-1:]]
        if earlier and isinstance(earlier[0], _CommitHook):
            self.hooks = earlier[0].hooks
        transaction.on_commit(self, using=alias)
        self.hooks[:] = [transaction.get_connection(alias).run_on_commit]

    def _following(self) -> list[_CommitHook]:
        """The hooks that are called next after this one, and can be sent with it.

        Django removes a hook from its list before it calls it. A list that still has this hook is not the one that
        Django works on: a savepoint was rolled back after the last registration, or a test calls the hooks. Then
        each hook sends its own tasks.
        """
        entries = self.hooks[0] if self.hooks else []
        following = list(itertools.takewhile(self._can_send, (entry[1] for entry in entries)))
        if following and any(entry[1] is self for entry in entries):
            return []
        return following

    def _can_send(self, hook: object) -> bool:
        return type(hook) is type(self) and hook.shard == self.shard and not _has_own_id(hook.prepared)


class _OutboxHook(_CommitHook):
    """Sends tasks whose rows are in the outbox. It raises nothing if Redis is away: then the relay sends them.

    Attributes:
        stored_at: when the rows were written, on the monotonic clock.
    """

    __slots__ = ("stored_at",)

    def __init__(self, prepared: Prepared) -> None:
        super().__init__(prepared)
        self.stored_at = time.monotonic()

    def _send(self, prepared: Prepared) -> None:
        replies: list[task_records.Reply] = []
        flow = _send_stored(self.shard, [message for _, message in prepared], replies)
        try:
            outbox.try_to_send(flow, self.shard, self.stored_at)
        finally:
            pipeline.notify_enqueued(_accepted(prepared, replies))


def _send_stored(shard: Shard, messages: Sequence[TaskMessage], replies: list[task_records.Reply]) -> Flow[None]:
    """Send tasks whose rows are in the outbox; see `task_records.send_many`."""
    for some in chunks(messages):
        call = outbox.send_once(shard, [(outbox.token_of(message), message.arguments) for message in some])
        if not some[0].nonce:
            replies += yield call
            continue
        [message] = some  # see `_has_own_id`
        [reply], pairs = yield Batch([call, Read("HGETALL", shard.record(message.id))])
        replies.append(task_records.reply_with_id(message, reply, pairs))


def _has_own_id(prepared: Prepared) -> bool:
    """Whether a task has the option `id`; it is sent alone, since its record is read in the same round trip."""
    return any(message.nonce for _, message in prepared)


def send_on_commit(prepared: Prepared, options: TaskOptions) -> bool:
    """Enqueue tasks when the surrounding transaction commits; False without a transaction or database.

    With the outbox they are stored, and sent when the rows are committed: at once without a transaction.

    Args:
        prepared: tasks of one shard.
        options: of them; for `database` see `call_on_commit`.

    Raises:
        InvalidTask: see `call_on_commit`; or the outbox is not installed.
        django.db.Error: the rows cannot be stored.
    """
    if not prepared:
        return False
    if outbox.is_used(options):
        shard = prepared[0][0]._shard
        rows = [outbox.row_of(shard, message) for _, message in prepared]
        alias = store_in_outbox(rows, shard.using, options.database)
        if alias is not None:
            _OutboxHook(prepared).register(alias)
        return True
    alias = alias_in_transaction(options.database)
    if alias is not None:
        _CommitHook(prepared).register(alias)
    return alias is not None


def store_in_outbox(rows: Sequence[outbox.OutboxRow], using: str, database: str | None) -> str | None:
    """Store rows in the outbox, in the surrounding transaction if there is one.

    Returns:
        Alias of the database whose commit sends the tasks; None if the relay must send the tasks, because the site
        manages its transactions without Django.

    Raises:
        InvalidTask: see `call_on_commit`; or the outbox is not installed.
        ConfigurationError: there is no such connection: no relay would ever send the tasks.
        django.db.Error: the rows cannot be stored.
    """
    if using not in conf.settings().connections:
        client_connections.endpoint(using)
    alias = alias_in_transaction(database) or database or DEFAULT_DB_ALIAS
    outbox.storage().add(rows, using, alias)
    connection = transaction.get_connection(alias)
    return alias if connection.in_atomic_block or connection.get_autocommit() else None


def _set_options(message: TaskMessage, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Add the task's options to the message."""
    options = task.options
    message.priority = options.priority
    if options.max_deliveries != MAX_DELIVERIES:
        message.extra += (Field.max_deliveries, options.max_deliveries)
    if options.concurrency or options.rate:
        func = task._enqueue_func
        message.extra += limits.fields(task.name, func, args, kwargs, options.concurrency, options.rate)
    if options.fair:
        message.extra += fair_share.fields(task.name, task._enqueue_func, args, kwargs, options.fair)
    if options.id is not None:
        message.nonce = task_records.new_id()
        message.extra += (Field.nonce, message.nonce)
    if options.run_after is not None:
        message.due = options.due()
    if options.expires is not None:
        message.expires = options.expiry()
    if options.unique is not None:
        message.unique = claim_of(options.unique, task.name, task._enqueue_func, args, kwargs)


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
