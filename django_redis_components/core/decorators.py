"""Decorators that run each call of a function inside a context manager."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import CoroutineType
from typing import Any, Literal, ParamSpec, Protocol, Self, TypeVar, cast, get_args

from asgiref.sync import iscoroutinefunction

from django_redis_components.core.arguments import check_choice, short_repr
from django_redis_components.core.exceptions import RedisComponentsError, TaskDelayed

#: What a decorated call does on a conflict: wait, raise, return None, or have its task run again later.
OnConflict = Literal["wait", "raise", "skip", "delay"]
CONFLICTS: tuple[OnConflict, ...] = get_args(OnConflict)

P = ParamSpec("P")
R = TypeVar("R")


class DualContextManager(Protocol):
    """A context manager for `with` and `async with`."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: Any) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: Any) -> None: ...


def check_conflict(on_conflict: object) -> None:
    """Validate `on_conflict`.

    Raises:
        TypeError, ValueError: it is not one of `CONFLICTS`.
    """
    check_choice(on_conflict, "on_conflict", CONFLICTS)


def function_name(func: Callable[..., Any]) -> str:
    """Return the name of a function for errors. Partials and callable objects have no name: return their repr."""
    return getattr(func, "__qualname__", None) or repr(func)


def is_async(func: Callable[..., Any]) -> bool:
    """Return whether a call must be awaited.

    So must that of an object whose `__call__` is `async def`, and of the method `dispatch` of an asynchronous view, a
    plain function that returns a coroutine.
    """
    if iscoroutinefunction(func) or iscoroutinefunction(getattr(func, "__call__", None)):  # noqa: B004
        return True
    method = func.func if isinstance(func, functools.partial) else func  # of Django's `method_decorator`
    view = getattr(method, "__self__", None)
    return getattr(method, "__name__", "") == "dispatch" and getattr(view, "view_is_async", False) is True


def is_generator(func: Any) -> bool:
    """Return whether a function is a generator function, asynchronous or not: a call runs nothing of it."""
    return inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func)


def without_stop_iteration(func: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function for `sync_to_async`: it raises RuntimeError instead of StopIteration, as a coroutine does.

    A future cannot hold StopIteration: on Python 3.11 awaiting it would never return.
    """

    @functools.wraps(func)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return func(*args, **kwargs)
        except StopIteration as exc:
            raise RuntimeError(f"{function_name(func)}() raised StopIteration") from exc

    return call


def refuse_deferred_function(func: object, what: str) -> None:
    """Raise for a callback whose call runs nothing of it: a coroutine function, or a generator function.

    Args:
        func: the callback, or None.
        what: the argument's name, for the error.

    Raises:
        TypeError: it is one of them.
    """
    if not callable(func):
        return
    if is_async(func):
        raise TypeError(
            f"{what}={short_repr(func)} is a coroutine function, which would not be awaited: pass a regular function."
        )
    if is_generator(func) or is_generator(getattr(func, "__call__", None)):  # noqa: B004
        raise TypeError(
            f"{what}={short_repr(func)} is a generator function, whose call runs nothing of it: pass a regular"
            " function."
        )


#: Why a function in a context may not return an awaitable.
_NOT_AWAITED = (
    "what it returned would be awaited after the context has exited. A decorator of an async function must itself be an"
    " async function, or pass inspect.iscoroutinefunction() (see inspect.markcoroutinefunction)"
)


def refuse_awaitable(value: R, func: Callable[..., Any], why: str) -> R:
    """Return the value that a function has returned, unless the caller had to await it.

    Raises:
        TypeError: the value is awaitable.
    """
    if not hasattr(type(value), "__await__"):  # `isinstance` reads `__class__`: that of a lazy object evaluates it
        return value
    if type(value) is CoroutineType:
        cast("CoroutineType[Any, Any, Any]", value).close()  # or Python warns that it was never awaited
    raise TypeError(f"{function_name(func)}() must be awaited: {why}.")


def run_in_context(
    func: Callable[P, R],
    make: Callable[[tuple[Any, ...], dict[str, Any]], DualContextManager],
    conflict_error: type[RedisComponentsError],
    on_conflict: str,
) -> Callable[P, R]:
    """Wrap a function so that each call runs inside a context manager. A coroutine function stays one.

    Args:
        make: returns the context manager for the arguments of a call.
        conflict_error: what entering it raises on a conflict.
        on_conflict: "skip" returns None, "delay" raises TaskDelayed; otherwise `conflict_error` is raised.

    Raises:
        TypeError: the function is a generator function, whose body runs after the call. A call raises it if the
            function, which is no coroutine function, returns an awaitable.
    """
    if is_generator(func):
        raise TypeError(
            f"{function_name(func)}() is a generator function: its body would run after the context has exited."
        )

    @functools.wraps(func)
    def sync(*args: P.args, **kwargs: P.kwargs) -> R | None:
        has_entered = False
        try:
            with make(args, kwargs):  # not an ExitStack: see `leasing.context_managers`
                has_entered = True
                return refuse_awaitable(func(*args, **kwargs), func, _NOT_AWAITED)
        except conflict_error as exc:
            if has_entered:
                raise
            _raise_conflict(exc, on_conflict)
            return None

    @functools.wraps(func)
    async def asynchronous(*args: P.args, **kwargs: P.kwargs) -> Any:
        has_entered = False
        try:
            async with make(args, kwargs):
                has_entered = True
                return await cast(Any, func)(*args, **kwargs)
        except conflict_error as exc:
            if has_entered:
                raise
            _raise_conflict(exc, on_conflict)
            return None

    return cast("Callable[P, R]", asynchronous if is_async(func) else sync)


def _raise_conflict(error: RedisComponentsError, on_conflict: str) -> None:
    if on_conflict == "delay":
        raise TaskDelayed(str(error)) from error
    if on_conflict != "skip":
        raise error
