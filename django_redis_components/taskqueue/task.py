"""A registered function with its options: sent, called, and asked for its results."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar, Unpack

from asgiref.sync import sync_to_async

from django_redis_components.core import conf
from django_redis_components.core import serialization as arguments
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import arun, run
from django_redis_components.taskqueue import limits, signals
from django_redis_components.taskqueue.call_signature import signature_of
from django_redis_components.taskqueue.context import without_context
from django_redis_components.taskqueue.enqueue import asend_many, asend_one, send_many, send_one
from django_redis_components.taskqueue.exceptions import InvalidTask, TaskResultMismatch
from django_redis_components.taskqueue.flows import parents
from django_redis_components.taskqueue.flows.signature import Signature
from django_redis_components.taskqueue.framework import FrameworkNames
from django_redis_components.taskqueue.on_commit import in_transaction as _in_transaction
from django_redis_components.taskqueue.options import (
    MAX_DELIVERIES,
    SendingOptions,
    TaskOptions,
    check_queue,
    chosen_options,
    travelling_options,
)
from django_redis_components.taskqueue.record import encode_metadata
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.run_observer import Attempt
from django_redis_components.taskqueue.store import tasks as store
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.store.messages import Message, check_size
from django_redis_components.taskqueue.task_run import ObservedAttempt
from django_redis_components.taskqueue.unique import claim_of

P = ParamSpec("P")
R = TypeVar("R")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Task(FrameworkNames, Generic[P, R]):
    """A registered function with its options. Immutable; `using` makes a copy.

    Attributes:
        func: the function.
        name: dotted path, under which workers know it.
        options: see `options.TaskOptions`.
        connection: alias of the connection that it is sent over.
        changed: names of the options that `using` has set.
        takes_context: whether workers give the function a `context.TaskContext` first.
    """

    func: Callable[P, R]
    name: str
    options: TaskOptions
    connection: str = "default"
    changed: frozenset[str] = frozenset()
    takes_context: bool = False

    @property
    def called(self) -> Callable[..., Any]:
        """The function as those call it who enqueue it: without a context."""
        return without_context(self.func) if self.takes_context else self.func

    def __repr__(self) -> str:
        """Short: it stands in errors and logs."""
        return f"<Task {self.name}>"

    def __hash__(self) -> int:
        """By name: an option may be a list, and signals hash their sender."""
        return hash(self.name)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function here and now."""
        return self.func(*args, **kwargs)

    def using(self, **options: Unpack[SendingOptions]) -> Task[P, R]:
        """The same task with other options: queue_name, priority, run_after, max_attempts, ….

        Raises:
            InvalidTask: an option is unknown or has a value that is not accepted.
        """
        if callable(options.get("backoff")):
            raise InvalidTask(
                f"backoff={options['backoff']!r}: using() takes seconds or a list; @task takes a callable."
            )
        changed = self.changed | frozenset(options)
        return dataclasses.replace(self, options=chosen_options(self.called, self.options, options), changed=changed)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskResult:
        """Send it. With TASKQUEUE["ENQUEUE_ON_COMMIT"] it is sent when the transaction commits.

        Raises:
            TypeError: the function does not take these arguments, or one is not JSON; the message names the parameter
                or the place.
            UnknownQueue: the site declares its queues, and this is none of them.
            redis.exceptions.RedisError: Redis did not answer, asked again and again; it may have accepted the task
                nevertheless. To call this again is to send another one, unless it is unique.
        """
        if conf.settings().taskqueue.enqueue_on_commit:
            return self.enqueue_on_commit(*args, **kwargs)
        result, message = self._prepared(args, kwargs)
        return send_one(result, self.connection, message)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskResult:
        """See `enqueue`."""
        if conf.settings().taskqueue.enqueue_on_commit:
            return await self.aenqueue_on_commit(*args, **kwargs)
        result, message = self._prepared(args, kwargs)
        return await asend_one(result, self.connection, message)

    def enqueue_many(self, calls: Iterable[tuple[Sequence[Any], dict[str, Any]]]) -> list[TaskResult]:
        """Send it once for each (args, kwargs).

        The calls go in parts of 500, or fewer with more than 1 MiB of arguments. A part is accepted whole or not at
        all; the parts are accepted one after the other. TASKQUEUE["ENQUEUE_ON_COMMIT"] holds here too.

        Args:
            calls: pairs of a tuple (or list) and a dict.

        Raises:
            TypeError: one of them is no such pair, or its arguments are not accepted (see `enqueue`); the message
                names its index, and none is sent.
            PartiallyEnqueued: Redis failed after it had accepted a part, or perhaps had; it carries the results, and
                `resend` sends the others under the same ids.
            redis.exceptions.RedisError: Redis failed. There was only one part, as with `enqueue`; or it refused the
                first one, and none is accepted.
        """
        prepared = self._prepared_many(calls)
        send = partial(send_many, prepared, self.connection)
        if not (conf.settings().taskqueue.enqueue_on_commit and _in_transaction(send, self.options.database)):
            send()
        return [result for result, _ in prepared]

    async def aenqueue_many(self, calls: Iterable[tuple[Sequence[Any], dict[str, Any]]]) -> list[TaskResult]:
        """See `enqueue_many`."""
        prepared = self._prepared_many(calls)
        if conf.settings().taskqueue.enqueue_on_commit:
            send = partial(send_many, prepared, self.connection)
            if await sync_to_async(_in_transaction)(send, self.options.database):
                return [result for result, _ in prepared]
        return await asend_many(prepared, self.connection)

    def enqueue_on_commit(self, *args: P.args, **kwargs: P.kwargs) -> TaskResult:
        """Send it when the surrounding transaction commits; never if it is rolled back.

        The result's id is real at once; `enqueued_at` is None until the task is sent. Without a
        transaction, or without a database, it is sent at once. With several databases the option `database`
        says whose transaction is meant.
        """
        result, message = self._prepared(args, kwargs)
        send = partial(send_one, result, self.connection, message)
        if not _in_transaction(send, self.options.database):
            send()
        return result

    async def aenqueue_on_commit(self, *args: P.args, **kwargs: P.kwargs) -> TaskResult:
        """See `enqueue_on_commit`. Django's transactions live on a thread of their own; it is asked there."""
        result, message = self._prepared(args, kwargs)
        send = partial(send_one, result, self.connection, message)
        if await sync_to_async(_in_transaction)(send, self.options.database):
            return result
        return await asend_one(result, self.connection, message)

    def s(self, *args: Any, **kwargs: Any) -> Signature:
        """A call of this task in a flow (`chain`, `group`): what came before it is put before the arguments."""
        return Signature(self, args, kwargs)

    def si(self, *args: P.args, **kwargs: P.kwargs) -> Signature:
        """A call of this task in a flow that gets these arguments only, whatever came before it."""
        return Signature(self, args, kwargs, immutable=True)

    def message_in_flow(
        self, args: Sequence[Any], kwargs: dict[str, Any], also: dict[str, Any]
    ) -> tuple[TaskResult, Message]:
        """The result of a task that is about to be sent as part of a flow, and the message that would send it alone.

        Args:
            also: what `parents` reads: whose results go before the arguments.
        """
        return self._prepared(args, kwargs, also)

    def get_result(self, task_id: str) -> TaskResult:
        """The result of an earlier `enqueue` of this task.

        Raises:
            TaskResultDoesNotExist: no such task, or its result has expired.
            TaskResultMismatch: the id is that of another task.
        """
        return self._mine(task_id, run(connections.client(self.connection), store.read(task_id)))

    async def aget_result(self, task_id: str) -> TaskResult:
        """See `get_result`."""
        return self._mine(task_id, await arun(connections.aclient(self.connection), store.read(task_id)))

    def message(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Message:
        """What `enqueue` would send."""
        return self._prepared(args, kwargs)[1]

    def check_arguments(self, args: Sequence[Any], kwargs: dict[str, Any], *, gets_result: bool = False) -> None:
        """Refuse arguments that the function does not take.

        Args:
            gets_result: whether the worker puts the result of an earlier task before them, as in a flow.

        Raises:
            TypeError: the message names the parameter.
        """
        signature = signature_of(self.func, self.takes_context + gets_result)
        if signature is not None:
            signature.check(self.name, args, kwargs)

    def begin(self, job: Job, args: list[Any], kwargs: dict[str, Any], travelled: dict[str, Any]) -> Attempt | None:
        """Called by the worker before each run; None when nobody but the function takes part in it.

        Args:
            travelled: what was sent beside the arguments.
        """
        if self.takes_context or signals.heard_in_workers():
            return ObservedAttempt(self, job, args)
        return None

    def _mine(self, task_id: str, found: tuple[store.Fields, list[bytes]]) -> TaskResult:
        fields, failures = found
        name = fields["n"].decode()
        if name != self.name:
            raise TaskResultMismatch(f"Task {task_id} is one of {name}, not of {self.name}.")
        return TaskResult(self, name, task_id, self.connection, fields, failures)

    def _prepared_many(self, calls: Iterable[tuple[Sequence[Any], dict[str, Any]]]) -> list[tuple[TaskResult, Message]]:
        pairs = [_pair(number, call) for number, call in enumerate(calls)]
        prepared: list[tuple[TaskResult, Message]] = []
        for (args, kwargs), task_id in zip(pairs, store.new_ids(len(pairs)), strict=True):
            try:
                prepared.append(self._prepared(args, kwargs, None, task_id))
            except (TypeError, ValueError) as exc:
                if type(exc) not in (TypeError, ValueError):
                    raise  # of a subclass it is not known how it is made
                raise type(exc)(f"calls[{len(prepared)}]: {exc}") from exc
        return prepared

    def _prepared(
        self, args: Sequence[Any], kwargs: dict[str, Any], also: dict[str, Any] | None = None, task_id: str = ""
    ) -> tuple[TaskResult, Message]:
        """Args: also: what a subclass has travel beside the options; task_id: empty for a new one."""
        options = self.options
        settings = conf.settings().taskqueue
        if settings.queues is not None:
            check_queue(options.queue_name)
        self.check_arguments(args, kwargs, gets_result=also is not None and parents.wanted(also))
        sent: list[Any] = [arguments.normalise(args, "args"), arguments.normalise(kwargs, "kwargs") if kwargs else {}]
        if self.changed or also:
            travelling = travelling_options(options, self.changed) | (also or {})
            if travelling:
                sent.append(travelling)
        body = arguments.encode(sent)
        if len(body) > settings.max_body_bytes:
            check_size(self.name, body)
        message = Message(task_id or store.new_id(), self.name, options.queue_name, body)
        fields = {"q": options.queue_name.encode(), "b": body}
        if not options.are_plain:
            self._complete(message, *sent[:2])
            if options.metadata is not None:
                fields["m"] = encode_metadata(options.metadata)
        return TaskResult(self, self.name, message.id, self.connection, fields), message

    def _complete(self, message: Message, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Say in the message what the options ask for."""
        options = self.options
        message.priority = options.priority
        if options.max_deliveries != MAX_DELIVERIES:
            message.extra += ("D", options.max_deliveries)
        if options.concurrency or options.rate:
            message.extra += limits.fields(self.name, self.called, args, kwargs, options.concurrency, options.rate)
        if options.metadata is not None:
            message.extra += ("m", encode_metadata(options.metadata))
        if options.run_after is not None:
            message.due = options.due()
        if options.expires is not None:
            message.expires = options.expiry()
        if options.unique is not None:
            message.unique = claim_of(options.unique, self.name, self.called, args, kwargs)


def _pair(number: int, call: Any) -> tuple[Sequence[Any], dict[str, Any]]:
    """The arguments of a call that `enqueue_many` was given."""
    if isinstance(call, tuple | list) and len(call) == 2:
        args, kwargs = call
        if isinstance(args, tuple | list) and isinstance(kwargs, dict):
            return args, kwargs
    raise TypeError(f"calls[{number}] is {call!r:.200}: expected (args, kwargs), such as ((1, 2), {{}}).")
