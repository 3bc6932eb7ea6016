"""`@task`: makes a function a `Task`, and registers it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, Unpack, overload

from django_redis_components.core import keys
from django_redis_components.core.arguments import check_flag, short_repr
from django_redis_components.core.decorators import is_generator
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.batch_task import BatchTask, check_batch, check_expiry, runner_of_one
from django_redis_components.taskqueue.batches import Batch, BatchCall, group_of_batch
from django_redis_components.taskqueue.context import TaskContext, without_context
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.options import DeclaredOptions, TaskOptions, options_with
from django_redis_components.taskqueue.task import Task

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V")


@overload
def task(func: Callable[P, Coroutine[Any, Any, V]], /) -> Task[P, Coroutine[Any, Any, V], V]: ...
@overload
def task(func: Callable[P, R], /) -> Task[P, R, R]: ...
@overload
def task(
    *,
    name: str | None = None,
    aliases: Sequence[str] = (),
    batch: Batch[P],
    using: str = "default",
    **options: Unpack[DeclaredOptions],
) -> _BatchDecorator[P]: ...
@overload
def task(
    *,
    name: str | None = None,
    aliases: Sequence[str] = (),
    takes_context: Literal[True],
    using: str = "default",
    **options: Unpack[DeclaredOptions],
) -> _ContextDecorator: ...
@overload
def task(
    *,
    name: str | None = None,
    aliases: Sequence[str] = (),
    takes_context: Literal[False] = False,
    using: str = "default",
    **options: Unpack[DeclaredOptions],
) -> _Decorator: ...


def task(
    func: Any = None,
    /,
    *,
    name: str | None = None,
    aliases: Sequence[str] = (),
    takes_context: bool = False,
    batch: Batch[...] | None = None,
    using: str = "default",
    **options: Any,
) -> Any:
    """Make a module-level function, or coroutine function, a task.

    Args:
        name: under which the task is stored and found; None: the dotted path of the function. A function that moves
            keeps its tasks, results and statistics if its old path stays its name.
        aliases: further names under which workers find it: those that it had before. Tasks that were enqueued under
            them run.
        takes_context: whether workers pass a `TaskContext` as the first argument, which must be named "context".
        batch: how many calls of the task one run gets. The function is called with a list of `BatchCall` objects.
        using: alias of the connection.
        options: queue_name, priority, max_attempts, max_deliveries, backoff, timeout, concurrency, rate, fair, unique,
            expires, result_ttl, database, outbox, sealed (see `options.TaskOptions`). `run_after`, `metadata` and `id`
            belong to `using()`. TASKQUEUE["DEFAULTS"] may have others than those of the package.

    Raises:
        InvalidTask: the function is not at the top level of a module or is a generator function, an option is not
            accepted, or another task has this name or alias.
    """
    name, aliases = _check_names(name, aliases)
    _check_given(options, using, takes_context)

    def decorate(function: Callable[..., Any]) -> Task[..., Any, Any]:
        path = _name_of(function)
        if is_generator(function):
            raise InvalidTask(f"{path} cannot be a task: a call of a generator function runs nothing of it.")
        given: dict[str, Any] = {"name": name or path, "aliases": aliases, "connection": using}
        if batch is not None:
            check_batch(path, function, batch, takes_context=takes_context, fair=options.get("fair"))
            task = _batch_task(function, batch, options, given)
        else:
            task = _task(function, path, takes_context, options, given)
        registry.register(task.name, task, task.aliases)
        return task

    return decorate if func is None else decorate(func)


def _task(
    function: Callable[..., Any], path: str, takes_context: bool, options: dict[str, Any], given: dict[str, Any]
) -> Task[..., Any, Any]:
    if takes_context and next(iter(inspect.signature(function).parameters), None) != "context":
        raise InvalidTask(f"{path} takes a context: its first parameter must be named 'context'.")
    return Task(
        func=function,
        declared_options=options_with(without_context(function) if takes_context else function, TaskOptions(), options),
        declared=frozenset(options),
        takes_context=takes_context,
        **given,
    )


def _batch_task(
    function: Callable[..., Any], batch: Batch[...], options: dict[str, Any], given: dict[str, Any]
) -> Task[..., Any, Any]:
    runner, options = runner_of_one(function, given["name"], batch), {**options, "fair": group_of_batch(batch)}
    declared_options = options_with(runner, TaskOptions(), options)
    check_expiry(given["name"], batch, declared_options.expires)
    return BatchTask(
        func=runner,
        declared_options=declared_options,
        declared=frozenset(options),
        batch=batch,
        batch_func=function,
        **given,
    )


if TYPE_CHECKING:

    class _Decorator:
        """`@task(…)` for type checkers."""

        @overload
        def __call__(self, func: Callable[P, Coroutine[Any, Any, V]], /) -> Task[P, Coroutine[Any, Any, V], V]: ...
        @overload
        def __call__(self, func: Callable[P, R], /) -> Task[P, R, R]: ...
        def __call__(self, func: Any, /) -> Any: ...

    class _BatchDecorator(Generic[P]):
        """`@task(batch=…)` for type checkers."""

        @overload
        def __call__(
            self, func: Callable[[list[BatchCall]], Coroutine[Any, Any, Any]], /
        ) -> BatchTask[P, Coroutine[Any, Any, Any], Any]: ...
        @overload
        def __call__(self, func: Callable[[list[BatchCall]], Any], /) -> BatchTask[P, Any, Any]: ...
        def __call__(self, func: Any, /) -> Any: ...

    class _ContextDecorator:
        """`@task(takes_context=True)` for type checkers."""

        @overload
        def __call__(
            self, func: Callable[Concatenate[TaskContext, P], Coroutine[Any, Any, V]], /
        ) -> Task[P, Coroutine[Any, Any, V], V]: ...
        @overload
        def __call__(self, func: Callable[Concatenate[TaskContext, P], R], /) -> Task[P, R, R]: ...
        def __call__(self, func: Any, /) -> Any: ...


def _name_of(function: Any) -> str:
    if not inspect.isfunction(function) or "<" in function.__qualname__ or "." in function.__qualname__:
        raise InvalidTask(f"{short_repr(function)} cannot be a task: expected a function at the top level of a module.")
    return f"{function.__module__}.{function.__qualname__}"


def _check_given(options: Collection[str], using: Any, takes_context: Any) -> None:
    for option in ("run_after", "metadata", "id"):
        if option in options:
            raise InvalidTask(f"{option} is an option of a call, not of @task: task.using({option}=…).enqueue(…).")
    if not isinstance(using, str):
        raise InvalidTask(f"using={short_repr(using)}: expected the name of a connection.")
    try:
        check_flag(takes_context, "takes_context")
    except TypeError as exc:
        raise InvalidTask(str(exc)) from exc


def _check_names(name: Any, aliases: Any) -> tuple[str | None, tuple[str, ...]]:
    if isinstance(aliases, str) or not isinstance(aliases, Sequence):
        raise InvalidTask(f"aliases={short_repr(aliases)}: expected a list of names, such as ('shop.tasks.send',).")
    return None if name is None else _check_name(name, "name"), tuple(_check_name(each, "aliases") for each in aliases)


def _check_name(name: Any, what: str) -> str:
    try:
        text = keys.validate_name(name, what)
    except (TypeError, ValueError) as exc:
        raise InvalidTask(str(exc)) from exc
    if not text.isprintable() or " " in text:
        raise InvalidTask(f"{what}={short_repr(text)}: expected a name without spaces, such as 'shop.send_invoice'.")
    return text
