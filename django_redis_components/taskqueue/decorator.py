"""`@task`: a function that can be sent to a worker."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, Unpack, overload

from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.context import TaskContext, without_context
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.options import DeclaredOptions, TaskOptions, chosen_options
from django_redis_components.taskqueue.task import Task

P = ParamSpec("P")
R = TypeVar("R")


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
            expires, result_ttl, database (see `options.TaskOptions`). `run_after` and `metadata` belong to `using()`.

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
        chosen = chosen_options(without_context(function) if takes_context else function, TaskOptions(), options)
        made = Task(func=function, name=name, options=chosen, connection=using, takes_context=takes_context)
        registry.register(made.name, made)
        return made

    return decorate if func is None else decorate(func)


def _name(function: Any) -> str:
    if not inspect.isfunction(function) or "<" in function.__qualname__ or "." in function.__qualname__:
        raise InvalidTask(f"{function!r} cannot be a task: expected a function at the top level of a module.")
    return f"{function.__module__}.{function.__qualname__}"
