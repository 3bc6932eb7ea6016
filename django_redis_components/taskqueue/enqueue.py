"""Enqueue tasks: build the message of a call, and send it on commit."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import DEFAULT_DB_ALIAS, transaction

from django_redis_components.core import serialization
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Batch, Flow, Read
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue import fair_share, limits, origin, outbox, placement, sealing
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.json_codec import pack
from django_redis_components.taskqueue.middleware import NewTask, pipeline
from django_redis_components.taskqueue.on_commit import alias_in_transaction
from django_redis_components.taskqueue.options import MAX_DELIVERIES, TaskOptions, check_queue, options_to_send
from django_redis_components.taskqueue.record import check_metadata, encode_metadata
from django_redis_components.taskqueue.replication import Replication
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.routing import next_answering
from django_redis_components.taskqueue.sending import Prepared, send_many, send_one, set_accepted
from django_redis_components.taskqueue.shards import Shard, place, route_of
from django_redis_components.taskqueue.store import task_records
from django_redis_components.taskqueue.store.messages import TaskMessage, check_size, chunks
from django_redis_components.taskqueue.unique import claim_of


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
    options, settings = task.options, conf.settings().taskqueue
    if settings.queues is not None:
        check_queue(options.queue_name)
    task._check_arguments(args, kwargs, gets_result=gets_result)
    to_json = serialization.normalize if settings.json_codec is None else pack
    sent: list[Any] = [to_json(args, "args"), to_json(kwargs, "kwargs") if kwargs else {}]
    extra = {**task._body_options, **body_options} if body_options else task._body_options
    message_id, metadata = options.id or task_id or task_records.new_id(), options.metadata
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
    if not task._has_plain_options:
        _set_options(message, task, *sent[:2], gets_result=gets_result)
    if metadata is not None:
        _set_metadata(message, fields, encode_metadata(metadata))
    shard = _shard_of(message, task, sent, gets_result)
    return TaskResult(task, task.name, message.id, shard, fields, (), message.replication), message


def _shard_of(message: TaskMessage, task: Any, sent: Sequence[Any], gets_result: bool) -> Shard:
    """Return the shard of a task. One of a spread queue without a placement key may go to any other of its route, too.

    Args:
        sent: the arguments as JSON values: args and kwargs.
        gets_result: see `prepare`.
    """
    route = route_of(message.queue, task.connection)
    if len(route) == 1:
        return route[0]
    key = placement.key_of(task, limits.arguments_of_keys(task.name, sent[0], gets_result), sent[1], message)
    if key:
        return place(route, key)
    message.route = route
    return route[0]  # until it is sent


def _set_metadata(message: TaskMessage, fields: dict[str, bytes], encoded: bytes) -> None:
    fields[Field.metadata] = encoded
    message.extra += (Field.metadata, encoded)


def _id_not_accepted(task_id: str) -> InvalidTask:
    return InvalidTask(
        f"id={task_id!r}: only enqueue() and enqueue_on_commit() accept an id. Flows, schedules and"
        " enqueue_many() create the ids of their tasks."
    )


class _CommitHook:
    """Enqueues tasks on commit, together with those of the hooks that directly follow it in the same transaction.

    Django calls the hooks in order, and stops at one that raises. So a hook takes the tasks of the next ones up to the
    first that is not its like: a hook of the site, another connection, or a task with an id. Without those between
    them, the tasks of a transaction cost one round trip to each shard. A hook of a savepoint that was rolled back is
    not among them.

    Attributes:
        prepared: the tasks to send; empty after an earlier hook has sent them.
        using: alias of the tasks' connection.
        hooks: the list that the database connection takes the hooks from, shared by the hooks of a transaction.
    """

    __slots__ = ("hooks", "prepared", "using")

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        self.using = prepared[0][0].using
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
        return type(hook) is type(self) and hook.using == self.using and not _has_own_id(hook.prepared)


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
        of_shard: dict[Shard, list[tuple[TaskResult, TaskMessage]]] = {}
        for result, message in prepared:
            of_shard.setdefault(result._shard, []).append((result, message))
        for shard, some in of_shard.items():
            replies: list[task_records.Reply] = []
            flow = _send_stored(shard, [message for _, message in some], replies)
            try:
                outbox.try_to_send(flow, shard, self.stored_at)
            finally:
                results = set_accepted(some, [abs(each) if isinstance(each, int) else each for each in replies])
                by_relay = [isinstance(reply, int) and reply < 0 for reply in replies]  # it has sent the signals
                pipeline.notify_enqueued(
                    [each for each, is_known in zip(results, by_relay, strict=True) if not is_known]
                )


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
        prepared: tasks of one connection.
        options: of them; for `database` see `call_on_commit`.

    Raises:
        InvalidTask: see `call_on_commit`; or the outbox is not installed.
        django.db.Error: the rows cannot be stored.
    """
    if not prepared:
        return False
    if outbox.is_used(options):
        _fix_shards(prepared)
        rows = [outbox.row_of(result._shard, message) for result, message in prepared]
        alias = store_in_outbox(rows, prepared[0][0].using, options.database)
        if alias is not None:
            _OutboxHook(prepared).register(alias)
        return True
    alias = alias_in_transaction(options.database)
    if alias is not None:
        _CommitHook(prepared).register(alias)
    return alias is not None


def _fix_shards(prepared: Prepared) -> None:
    """Choose the shard of tasks that any may have. Their rows name it, since only that one recognizes their tokens."""
    chosen: dict[tuple[Shard, ...], Shard] = {}
    for result, message in prepared:
        if message.route:
            if message.route not in chosen:
                chosen[message.route] = next_answering(message.route)
            result._shard, message.route = chosen[message.route], ()


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
        connections.endpoint(using)
    alias = alias_in_transaction(database) or database or DEFAULT_DB_ALIAS
    outbox.storage().add(rows, using, alias)
    connection = transaction.get_connection(alias)
    return alias if connection.in_atomic_block or connection.get_autocommit() else None


def _set_options(
    message: TaskMessage, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any], *, gets_result: bool
) -> None:
    """Add the task's options to the message."""
    options = task.options
    args = limits.arguments_of_keys(task.name, args, gets_result)
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
    if options.min_replicas:
        message.replication = Replication(options.min_replicas)
    if options.unique is not None:
        message.unique = claim_of(options.unique, task.name, task._enqueue_func, args, kwargs)
