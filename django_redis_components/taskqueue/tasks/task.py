"""`@task`: a function that can be sent to a worker."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, Unpack, overload

from asgiref.sync import sync_to_async

from django_redis_components.core import conf, connections
from django_redis_components.core.protocol import Call, arun, run
from django_redis_components.core.units import to_ms
from django_redis_components.taskqueue import arguments, registry, signals
from django_redis_components.taskqueue.exceptions import InvalidTask, TaskResultMismatch
from django_redis_components.taskqueue.flows.signatures import Signature
from django_redis_components.taskqueue.tasks import limits, notes, store, timeouts
from django_redis_components.taskqueue.tasks.attempt import Attempt
from django_redis_components.taskqueue.tasks.commits import in_transaction as _in_transaction
from django_redis_components.taskqueue.tasks.context import TaskContext, without_context
from django_redis_components.taskqueue.tasks.framework import FrameworkNames
from django_redis_components.taskqueue.tasks.jobs import Job
from django_redis_components.taskqueue.tasks.options import (
    MAX_DELIVERIES,
    DeclaredOptions,
    SendingOptions,
    TaskOptions,
    check_queue,
)
from django_redis_components.taskqueue.tasks.result import TaskResult
from django_redis_components.taskqueue.tasks.unique import check_key, claim_of
from django_redis_components.taskqueue.workers.running import ObservedAttempt

P = ParamSpec("P")
R = TypeVar("R")
#: Options that a worker needs to know when they differ from the decorator's.
_TRAVELLING = ("max_attempts", "backoff", "timeout", "result_ttl")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
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
        return dataclasses.replace(self, options=_options(self.called, self.options, options), changed=changed)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskResult:
        """Send it. With TASKQUEUE["ENQUEUE_ON_COMMIT"] it is sent when the transaction commits.

        Raises:
            TypeError: an argument is not JSON; the message names the place.
            UnknownQueue: the site declares its queues, and this is none of them.
            redis.exceptions.RedisError: Redis did not answer. It is safe to send again.
        """
        if conf.settings().taskqueue.enqueue_on_commit:
            return self.enqueue_on_commit(*args, **kwargs)
        result, call = self._prepared(args, kwargs)
        return _accepted(result, run(connections.client(self.connection), store.send(call)))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskResult:
        """See `enqueue`."""
        if conf.settings().taskqueue.enqueue_on_commit:
            return await self.aenqueue_on_commit(*args, **kwargs)
        result, call = self._prepared(args, kwargs)
        return await _aaccepted(result, await arun(connections.aclient(self.connection), store.send(call)))

    def enqueue_many(self, calls: Iterable[tuple[Sequence[Any], dict[str, Any]]]) -> list[TaskResult]:
        """Send it once for each (args, kwargs), up to 500 in a round trip, which are accepted together or not at all.

        TASKQUEUE["ENQUEUE_ON_COMMIT"] holds here too.
        """
        prepared = [self._prepared(tuple(args), kwargs) for args, kwargs in calls]
        send = partial(_send_many, prepared, self.connection)
        if not (conf.settings().taskqueue.enqueue_on_commit and _in_transaction(send)):
            send()
        return [result for result, _ in prepared]

    async def aenqueue_many(self, calls: Iterable[tuple[Sequence[Any], dict[str, Any]]]) -> list[TaskResult]:
        """See `enqueue_many`."""
        prepared = [self._prepared(tuple(args), kwargs) for args, kwargs in calls]
        if conf.settings().taskqueue.enqueue_on_commit:
            send = partial(_send_many, prepared, self.connection)
            if await sync_to_async(_in_transaction)(send):
                return [result for result, _ in prepared]
        flow = store.send_many([call for _, call in prepared])
        accepted = await arun(connections.aclient(self.connection), flow)
        return [await _aaccepted(result, reply) for (result, _), reply in zip(prepared, accepted, strict=True)]

    def enqueue_on_commit(self, *args: P.args, **kwargs: P.kwargs) -> TaskResult:
        """Send it when the surrounding transaction commits; never if it is rolled back.

        The result's id is real at once; `enqueued_at` is None until the task is sent. Without a
        transaction, or without a database, it is sent at once.
        """
        result, call = self._prepared(args, kwargs)
        send = partial(_send, result, self.connection, call)
        if not _in_transaction(send):
            send()
        return result

    async def aenqueue_on_commit(self, *args: P.args, **kwargs: P.kwargs) -> TaskResult:
        """See `enqueue_on_commit`. Django's transactions live on a thread of their own; it is asked there."""
        result, call = self._prepared(args, kwargs)
        if await sync_to_async(_in_transaction)(partial(_send, result, self.connection, call)):
            return result
        return await _aaccepted(result, await arun(connections.aclient(self.connection), store.send(call)))

    def s(self, *args: Any, **kwargs: Any) -> Signature:
        """A call of this task in a flow (`chain`, `group`): what came before it is put before the arguments."""
        return Signature(self, args, kwargs)

    def si(self, *args: P.args, **kwargs: P.kwargs) -> Signature:
        """A call of this task in a flow that gets these arguments only, whatever came before it."""
        return Signature(self, args, kwargs, immutable=True)

    def message_in_flow(
        self, args: Sequence[Any], kwargs: dict[str, Any], also: dict[str, Any]
    ) -> tuple[TaskResult, Call]:
        """The result of a task that is about to be sent as part of a flow, and the call that would send it alone.

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

    def sending_call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Call:
        """The call by which `enqueue` would send it."""
        return self._prepared(args, kwargs)[1]

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

    def _prepared(
        self, args: Sequence[Any], kwargs: dict[str, Any], also: dict[str, Any] | None = None
    ) -> tuple[TaskResult, Call]:
        """Args: also: what a subclass has travel beside the options."""
        options = self.options
        check_queue(options.queue_name)
        sent: list[Any] = [arguments.normalise(args, "args"), arguments.normalise(kwargs, "kwargs")]
        extra: tuple[Any, ...] = ()
        if self.changed or also:
            travelling = {name: getattr(options, name) for name in _TRAVELLING if name in self.changed}
            if travelling or also:
                sent.append(_plain(travelling) | (also or {}))
        if options.max_deliveries != MAX_DELIVERIES:
            extra = ("D", options.max_deliveries)
        if options.concurrency or options.rate:
            extra += limits.fields(self.name, self.called, *sent[:2], options.concurrency, options.rate)
        if options.metadata is not None:
            extra = (*extra, "m", notes.encode(options.metadata))
        body = arguments.encode(sent)
        task_id = store.new_id()
        due = options.due() if options.run_after is not None else ""
        expires = options.expiry() if options.expires is not None else ""
        unique = claim_of(options.unique, self.name, self.called, *sent[:2]) if options.unique is not None else ""
        call = store.message(
            task_id, self.name, options.queue_name, body, due, options.priority, extra, unique=unique, expires=expires
        )
        fields = {"q": options.queue_name.encode(), "b": body}
        if options.metadata is not None:
            fields["m"] = extra[-1]
        return TaskResult(self, self.name, task_id, self.connection, fields), call


def _send(result: TaskResult, connection: str, call: Call) -> None:
    _accepted(result, run(connections.client(connection), store.send(call)))


def _send_many(prepared: Sequence[tuple[TaskResult, Call]], connection: str) -> None:
    accepted = run(connections.client(connection), store.send_many([call for _, call in prepared]))
    for (result, _), reply in zip(prepared, accepted, strict=True):
        _accepted(result, reply)


def _accepted(result: TaskResult, reply: store.Reply) -> TaskResult:
    result.accepted(reply, result.task.options)
    if not result.is_duplicate:
        signals.tell(signals.task_enqueued, result)
    return result


async def _aaccepted(result: TaskResult, reply: store.Reply) -> TaskResult:
    result.accepted(reply, result.task.options)
    if not result.is_duplicate:
        await signals.atell(signals.task_enqueued, result)
    return result


def _plain(travelling: dict[str, Any]) -> dict[str, Any]:
    plain = dict(travelling)
    if "result_ttl" in plain:
        plain["result_ttl"] = to_ms(plain["result_ttl"], "result_ttl") / 1_000
    if "timeout" in plain:
        plain["timeout"] = timeouts.plain(plain["timeout"])
    if plain.get("backoff") is not None:
        given = plain["backoff"]
        listed = given if isinstance(given, list | tuple) else [given]
        plain["backoff"] = [to_ms(item, "backoff", zero=True) / 1_000 for item in listed]
    return plain


def _options(func: Callable[..., Any], base: TaskOptions, given: Mapping[str, Any]) -> TaskOptions:
    known = {field.name for field in dataclasses.fields(TaskOptions)}
    unknown = sorted(set(given) - known)
    if unknown:
        raise InvalidTask(f"Unknown option {', '.join(unknown)}. Known are {', '.join(sorted(known))}.")
    chosen = dataclasses.replace(base, **dict(given))
    check_keys(func, chosen)
    return chosen


def check_keys(func: Callable[..., Any], options: TaskOptions) -> None:
    """Refuse limits and a uniqueness whose keys the function's arguments cannot make.

    Args:
        func: as those call it who enqueue it.

    Raises:
        InvalidTask: a template names an argument that the function does not take.
    """
    try:
        if options.unique is not None:
            check_key(options.unique, func)
        limits.check_keys(func, options.concurrency, options.rate)
    except (TypeError, ValueError) as exc:
        raise InvalidTask(str(exc)) from exc


@overload
def task(func: Callable[P, R], /) -> Task[P, R]: ...
@overload
def task(
    *, takes_context: Literal[True], using: str = "default", **options: Unpack[DeclaredOptions]
) -> Callable[[Callable[Concatenate[TaskContext, P], R]], Task[P, R]]: ...
@overload
def task(
    *, takes_context: Literal[False] = False, using: str = "default", **options: Unpack[DeclaredOptions]
) -> Callable[[Callable[P, R]], Task[P, R]]: ...


def task(func: Any = None, /, *, takes_context: bool = False, using: str = "default", **options: Any) -> Any:
    """Make a module-level function a task; `async def` too.

    Args:
        takes_context: whether workers call it with a `context.TaskContext` before the arguments. Its first
            parameter is called "context" then.
        using: alias of the connection.
        options: queue_name, priority, max_attempts, max_deliveries, backoff, timeout, concurrency, rate, unique,
            expires, result_ttl (see `options.TaskOptions`). `run_after` and `metadata` belong to `using()`.

    Raises:
        InvalidTask: the function cannot be found by its name, or an option is not accepted.
    """
    for name in ("run_after", "metadata"):
        if name in options:
            raise InvalidTask(f"{name} belongs to each sending: task.using({name}=…).enqueue(…).")

    def decorate(function: Callable[P, R]) -> Task[P, R]:
        name = _name(function)
        if takes_context and next(iter(inspect.signature(function).parameters), None) != "context":
            raise InvalidTask(f"{name} takes a context: its first parameter must be called 'context'.")
        chosen = _options(without_context(function) if takes_context else function, TaskOptions(), options)
        made = Task(func=function, name=name, options=chosen, connection=using, takes_context=takes_context)
        registry.register(made.name, made)
        return made

    return decorate if func is None else decorate(func)


def _name(function: Any) -> str:
    if not inspect.isfunction(function) or "<" in function.__qualname__ or "." in function.__qualname__:
        raise InvalidTask(f"{function!r} cannot be a task: expected a function at the top level of a module.")
    return f"{function.__module__}.{function.__qualname__}"
