"""`Task`: a registered function with its options, which can be enqueued."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Generic, ParamSpec, Unpack, overload

from asgiref.sync import async_to_sync, sync_to_async

from django_redis_components.core.arguments import check_iterable, short_repr
from django_redis_components.core.decorators import without_stop_iteration
from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.core.units import Seconds
from django_redis_components.taskqueue import defaults, registry
from django_redis_components.taskqueue.call_signature import signature_of
from django_redis_components.taskqueue.context import without_context
from django_redis_components.taskqueue.enqueue import prepare, send_on_commit
from django_redis_components.taskqueue.exceptions import InvalidTask, TaskResultMismatch
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.flows.parents import has_inputs
from django_redis_components.taskqueue.flows.signature import Signature
from django_redis_components.taskqueue.middleware import Middleware
from django_redis_components.taskqueue.options import SendingOptions, TaskOptions, options_with
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.sending import asend_many, asend_one, send_many, send_one
from django_redis_components.taskqueue.shard_clients import arun_over, run_over
from django_redis_components.taskqueue.shards import shards_of
from django_redis_components.taskqueue.store import task_records
from django_redis_components.taskqueue.store.messages import TaskMessage

P = ParamSpec("P")
Q = ParamSpec("Q")
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    R = TypeVar("R")
    V = TypeVar("V", default=Any)
else:  # a type variable has no default before Python 3.13
    from typing import TypeVar

    R = TypeVar("R")
    V = TypeVar("V")

#: The arguments of a call: args and kwargs.
Arguments = tuple[Sequence[Any], Mapping[str, Any]]
#: Items of `enqueue_many`, for errors.
_CALLS = "pairs of args and kwargs, or calls of si(…)"

#: Methods of tasks in Celery, RQ, Dramatiq, Huey and others, and what replaces them here.
_OTHER_QUEUES = {
    "delay": "enqueue(…)",
    "delay_on_commit": "enqueue_on_commit(…)",
    "apply_async": "using(…).enqueue(…)",
    "apply_async_on_commit": "using(…).enqueue_on_commit(…)",
    "apply": "call(…)",
    "signature": "s(…)",
    "subtask": "s(…)",
    "AsyncResult": "get_result(id)",
    "perform_async": "enqueue(…)",
    "perform_later": "enqueue(…)",
    "perform_in": "using(run_after=…).enqueue(…)",
    "perform_at": "using(run_after=…).enqueue(…)",
    "send": "enqueue(…)",
    "send_with_options": "using(…).enqueue(…)",
    "message": "s(…)",
    "schedule": "using(run_after=…).enqueue(…)",
    "enqueue_in": "using(run_after=…).enqueue(…)",
    "enqueue_at": "using(run_after=…).enqueue(…)",
    "call_local": "call(…)",
    "defer": "enqueue(…)",
    "kiq": "enqueue(…)",
    "configure": "using(…)",
    "set": "using(…)",
    "map": "enqueue_many([((…,), {}), …])",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Task(Generic[P, R, V]):
    """A registered function with its options. Immutable: `using` returns a copy.

    ``Task[P, R, V]``: the function has the parameters P and returns R; a result's `get` returns V. V differs from R
    for coroutine functions.

    Attributes:
        func: the function.
        name: under which workers find it; by default the function's dotted path.
        aliases: other names under which workers find it: those that it had before.
        connection: alias of the connection that it is enqueued over.
        takes_context: whether workers pass a `TaskContext` as the first argument.
    """

    func: Callable[P, R]
    name: str
    #: Those of the decorator and of `using`; for others the defaults of the package.
    #:
    #: :meta private:
    declared_options: TaskOptions
    #: Names of the options that the decorator or `using` has set.
    #:
    #: :meta private:
    declared: frozenset[str] = frozenset()
    aliases: tuple[str, ...] = ()
    connection: str = "default"
    #: Names of the options that were set by `using`.
    #:
    #: :meta private:
    overrides: frozenset[str] = frozenset()
    takes_context: bool = False
    #: What `options` returns, and the generation of the settings that it was made from.
    _options: Any = dataclasses.field(default=None, init=False, compare=False)
    _generation: Any = dataclasses.field(default=None, init=False, compare=False)
    #: Whether what `options` returned last are plain, see `TaskOptions.are_plain`.
    _has_plain_options: bool = dataclasses.field(default=False, init=False, compare=False)

    #: Innermost middleware of its runs, in place of the signals; None: the signals.
    own_middleware: ClassVar[tuple[Middleware, ...] | None] = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle it by its name, as functions are: a process that reads it has its own."""
        options = {name: getattr(self.declared_options, name) for name in self.overrides}
        return registry.restore, (self.func.__module__, self.name, options)

    def _connection_of(self, options: Mapping[str, Any]) -> str:
        """Alias of the connection that a task was enqueued over, given the options that were sent beside its args."""
        return self.connection

    @property
    def options(self) -> TaskOptions:
        """Its options; those that neither the decorator nor `using` has set are from the settings.

        Raises:
            ConfigurationError: TASKQUEUE["DEFAULTS"] or TASKQUEUE["ROUTES"] is invalid.
            InvalidTask: a default does not fit the function.
        """
        if self._generation is not defaults.generation:
            self._resolve_options()
        options: TaskOptions = self._options
        return options

    @property
    def queue_name(self) -> str:
        """The queue that it is enqueued on."""
        return self.options.queue_name

    @property
    def priority(self) -> int:
        """-100 to 100 within the queue; higher first."""
        return self.options.priority

    @property
    def run_after(self) -> datetime | Seconds | None:
        """When it may start, as given to `using`; None: at once."""
        return self.declared_options.run_after

    @property
    def module_path(self) -> str:
        """Dotted path of the function."""
        return f"{self.func.__module__}.{self.func.__qualname__}"

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def __hash__(self) -> int:
        """Hash the name: an option may be a list, and signals hash their sender."""
        return hash(self.name)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Name the replacement for a method of another task queue."""
            text = f"'Task' object has no attribute {name!r}"
            if name in _OTHER_QUEUES:
                function = self.name.rpartition(".")[2]
                text = f"{text}. Use {function}.{_OTHER_QUEUES[name]}."
            raise AttributeError(text, name=name)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function in this process."""
        return self.func(*args, **kwargs)

    def call(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function in this process and return its value; a coroutine function runs in an event loop."""
        if inspect.iscoroutinefunction(self.func):
            return async_to_sync(partial(self.func, *args, **kwargs))()
        return self.func(*args, **kwargs)

    async def acall(self, /, *args: Any, **kwargs: Any) -> Any:
        """See `call`. A function that is not a coroutine function runs in Django's thread for synchronous code."""
        if inspect.iscoroutinefunction(self.func):
            return await self.func(*args, **kwargs)
        called_here = partial(without_stop_iteration(self.func), *args, **kwargs)
        return await sync_to_async(called_here)()

    def using(self, **options: Unpack[SendingOptions]) -> Task[P, R, V]:
        """Return the task with other options: queue_name, priority, run_after, max_attempts, ….

        Raises:
            InvalidTask: an option is unknown, or its value is not accepted.
        """
        if callable(options.get("backoff")):
            raise InvalidTask(
                f"backoff={short_repr(options['backoff'])}: using() takes seconds or a list; @task takes a callable."
            )
        chosen = options_with(self._enqueue_func, self.declared_options, options)
        names = frozenset(options)
        return dataclasses.replace(
            self, declared_options=chosen, declared=self.declared | names, overrides=self.overrides | names
        )

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> TaskResult[V]:
        """Enqueue a call. With TASKQUEUE["ENQUEUE_ON_COMMIT"] it is sent when the transaction commits.

        Raises:
            TypeError: the function does not accept these arguments, or one is not JSON; the message names the
                parameter or the path.
            UnknownQueue: the site declares its queues, and this is not one of them.
            redis.exceptions.RedisError: Redis did not answer any of the attempts; it may have accepted the task.
                Calling this again enqueues another task, unless the task is unique.
        """
        if conf.settings().taskqueue.enqueue_on_commit:
            return self.enqueue_on_commit(*args, **kwargs)
        result, message = prepare(self, args, kwargs, accepts_id=True)
        return send_one(result, message)

    async def aenqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> TaskResult[V]:
        """See `enqueue`."""
        if conf.settings().taskqueue.enqueue_on_commit:
            return await self.aenqueue_on_commit(*args, **kwargs)
        result, message = prepare(self, args, kwargs, accepts_id=True)
        return await asend_one(result, message)

    def enqueue_many(self, calls: Iterable[Arguments | Signature]) -> list[TaskResult[V]]:
        """Enqueue a call for each (args, kwargs), or `si(…)` of this task.

        The calls are sent in parts of 500, or fewer with more than 1 MiB of arguments. Each part is accepted as a
        whole or not at all. TASKQUEUE["ENQUEUE_ON_COMMIT"] applies.

        Args:
            calls: pairs of a tuple (or list) and a dict; or calls of `si`, whose arguments type checkers compare with
                the function.

        Raises:
            TypeError: an item is neither, or its arguments are not accepted (see `enqueue`); the message
                names its index, and nothing is enqueued.
            PartiallyEnqueued: Redis failed after it had accepted a part, or may have. The error has the results;
                its `resend` sends the other tasks under the same ids.
            redis.exceptions.RedisError: Redis failed at the only part, as with `enqueue`, or refused the first one.
        """
        prepared = self._prepare_many(calls)
        by_setting = conf.settings().taskqueue.enqueue_on_commit
        if not (by_setting and send_on_commit(prepared, self.options)):
            send_many(prepared)
        return [result for result, _ in prepared]

    async def aenqueue_many(self, calls: Iterable[Arguments | Signature]) -> list[TaskResult[V]]:
        """See `enqueue_many`."""
        prepared = self._prepare_many(calls)
        by_setting = conf.settings().taskqueue.enqueue_on_commit
        if by_setting and await sync_to_async(send_on_commit)(prepared, self.options):
            return [result for result, _ in prepared]
        return await asend_many(prepared)

    def enqueue_on_commit(self, /, *args: P.args, **kwargs: P.kwargs) -> TaskResult[V]:
        """Enqueue a call when the surrounding transaction commits, or never if it is rolled back.

        The result's id is final at once; `enqueued_at` is None until the task is sent. Without a transaction, or
        without a database, the task is sent at once. With several databases the option `database` names the one
        whose commit is awaited. The tasks of a transaction are sent in one round trip per connection, or in parts
        like those of `enqueue_many`.

        With autocommit off, outside of `atomic`, it raises TransactionManagementError as Django's `on_commit` does.
        With the option `outbox` the call is stored in the database with the transaction, and sent after the commit: an
        outage of Redis or a crash of this process delays it, and loses nothing.
        """
        result, message = prepare(self, args, kwargs, accepts_id=True)
        if not send_on_commit([(result, message)], self.options):
            send_one(result, message)
        return result

    async def aenqueue_on_commit(self, /, *args: P.args, **kwargs: P.kwargs) -> TaskResult[V]:
        """See `enqueue_on_commit`. Transactions belong to Django's thread for synchronous code; it is asked there."""
        result, message = prepare(self, args, kwargs, accepts_id=True)
        if await sync_to_async(send_on_commit)([(result, message)], self.options):
            return result
        return await asend_one(result, message)

    @overload
    def s(self: Task[Concatenate[Any, Q], R, V], /, *args: Q.args, **kwargs: Q.kwargs) -> Signature: ...
    @overload
    def s(self, /, *args: P.args, **kwargs: P.kwargs) -> Signature: ...
    def s(self, /, *args: Any, **kwargs: Any) -> Signature:
        """Return a call for `chain` or `group`; the result of the task before it is inserted before the arguments.

        Type checkers accept all arguments of the function, and all but the first.
        """
        return Signature(self, args, kwargs)

    def si(self, /, *args: P.args, **kwargs: P.kwargs) -> Signature:
        """Return a call for `chain` or `group` that gets these arguments only."""
        return Signature(self, args, kwargs, immutable=True)

    def get_result(self, task_id: str) -> TaskResult[V]:
        """Return the result of an earlier call of this task.

        Raises:
            TaskResultDoesNotExist: no task has this id, or its result has expired.
            TaskResultMismatch: the id belongs to another task.
        """
        return self._result_of(task_id, run_over(self.connection, self._find(task_id)))

    async def aget_result(self, task_id: str) -> TaskResult[V]:
        """See `get_result`."""
        return self._result_of(task_id, await arun_over(self.connection, self._find(task_id)))

    @property
    def _enqueue_func(self) -> Callable[..., Any]:
        """The function with the parameters of `enqueue`: without the context."""
        return without_context(self.func) if self.takes_context else self.func

    @property
    def _body_options(self) -> Mapping[str, Any]:
        """What each message of a subclass carries beside the arguments."""
        return {}

    def _gets_result(self, options: Mapping[str, Any]) -> bool:
        """Whether the worker inserts a result before the arguments of a task, given the options sent beside them."""
        return has_inputs(dict(options))

    def _resolve_options(self) -> None:
        generation = defaults.generation  # first: options from settings that change meanwhile are resolved again
        options = defaults.resolve(self)
        object.__setattr__(self, "_options", options)
        object.__setattr__(self, "_has_plain_options", options.are_plain)
        object.__setattr__(self, "_generation", generation)

    def _check_arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any], *, gets_result: bool = False) -> None:
        """Raise TypeError, naming the parameter, if the function does not accept these arguments.

        Args:
            gets_result: whether the worker inserts the result of an earlier task before them.
        """
        signature = signature_of(self.func, self.takes_context + gets_result)
        if signature is not None:
            signature.check(self.name, args, kwargs)

    def _find(self, task_id: str) -> Flow[task_records.Found]:
        return task_records.find(shards_of(self.connection), task_id)

    def _result_of(self, task_id: str, found: task_records.Found) -> TaskResult[V]:
        shard, fields, failures = found
        name = fields[Field.task_name].decode()
        if name != self.name and name not in self.aliases:
            raise TaskResultMismatch(f"Task {task_id} is a {name}, not a {self.name}.")
        return TaskResult(self, name, task_id, shard, fields, failures)

    def _prepare_many(self, calls: Iterable[Arguments | Signature]) -> list[tuple[TaskResult[V], TaskMessage]]:
        pairs = [_check_pair(self, number, call) for number, call in enumerate(check_iterable(calls, "calls", _CALLS))]
        prepared: list[tuple[TaskResult[V], TaskMessage]] = []
        for (args, kwargs), task_id in zip(pairs, task_records.new_ids(len(pairs)), strict=True):
            try:
                prepared.append(prepare(self, args, kwargs, task_id=task_id))
            except (TypeError, ValueError) as exc:
                if type(exc) not in (TypeError, ValueError):
                    raise  # a subclass may need other arguments
                raise type(exc)(f"calls[{len(prepared)}]: {exc}") from exc
        return prepared


def _is_plain_call(call: Signature, task: Task[..., Any, Any]) -> bool:
    """Return whether it is `si(…)` of the task as it was declared, or with the same options."""
    own: Task[..., Any, Any] = call.task
    if own.name != task.name or own not in (task, registry.find(own.name)):
        return False
    return call == Signature(own, call.args, call.kwargs, immutable=True)


def _check_pair(task: Task[..., Any, Any], number: int, call: Any) -> tuple[Sequence[Any], dict[str, Any]]:
    """The arguments of one call for `enqueue_many`."""
    if isinstance(call, tuple | list) and len(call) == 2:
        args, kwargs = call
        if isinstance(args, tuple | list) and isinstance(kwargs, dict):
            return args, kwargs
    if isinstance(call, Signature) and _is_plain_call(call, task):
        return call.args, call.kwargs
    raise TypeError(
        f"calls[{number}] is {short_repr(call)}: expected (args, kwargs), such as ((1, 2), {{}}), or a call of"
        f" {task.name} by si(…). Options belong before: using(…).enqueue_many(…)."
    )
