"""Decorating a function with something that is entered before each call and left after it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, Self, TypeVar, cast

from asgiref.sync import iscoroutinefunction

from django_redis_components.core.exceptions import RedisComponentsError, TryLater

#: What a decorated call does when somebody else is in: wait, tell the caller, return None, or be put off.
CONFLICTS = ("wait", "raise", "skip", "delay")

P = ParamSpec("P")
R = TypeVar("R")


class DualContextManager(Protocol):
    """A context manager for `with` and `async with`; entering raises when it is refused."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: Any) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: Any) -> None: ...


def check_conflict(on_conflict: object) -> None:
    """Refuse an unknown `on_conflict`.

    Raises:
        ValueError: it is none of the four answers.
    """
    if on_conflict not in CONFLICTS:
        raise ValueError(f"on_conflict={on_conflict!r}: expected one of {', '.join(map(repr, CONFLICTS))}.")


def function_name(func: Callable[..., Any]) -> str:
    """What a function is called in errors. A partial and an object that can be called have no name."""
    return getattr(func, "__qualname__", None) or repr(func)


def is_async(func: Callable[..., Any]) -> bool:
    """Whether a call of it must be awaited, by its kind: also of an object whose `__call__` is `async def`."""
    return iscoroutinefunction(func) or iscoroutinefunction(getattr(func, "__call__", None))  # noqa: B004


def without_stop_iteration(func: Callable[P, R]) -> Callable[P, R]:
    """The function for `sync_to_async`, with a RuntimeError in place of StopIteration, as of a coroutine.

    A future cannot hold StopIteration: on Python 3.11 whoever awaits it waits for ever.
    """

    @functools.wraps(func)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return func(*args, **kwargs)
        except StopIteration as exc:
            raise RuntimeError(f"{function_name(func)}() raised StopIteration") from exc

    return call


def refuse_coroutine_function(func: object, what: str) -> None:
    """Refuse a callback of the site that nobody awaits: it would never run, and what it returns would count as true.

    Args:
        func: the callback; None for none.
        what: the argument's name, for the error.

    Raises:
        TypeError: it is a coroutine function.
    """
    if callable(func) and is_async(func):
        raise TypeError(f"{what}={func!r} is a coroutine function, and would not be awaited: give a plain function.")


def refuse_awaitable(value: object, func: Callable[..., Any], why: str) -> None:
    """Refuse what a function returned to a caller who cannot wait for it.

    Raises:
        TypeError: it must be awaited.
    """
    if not inspect.isawaitable(value):
        return
    if inspect.iscoroutine(value):
        value.close()  # or Python warns that nobody awaited it
    raise TypeError(f"{function_name(func)}() must be awaited: {why}.")


def run_in_context(
    func: Callable[P, R],
    make: Callable[[tuple[Any, ...], dict[str, Any]], DualContextManager],
    refused: type[RedisComponentsError],
    on_conflict: str,
) -> Callable[P, R]:
    """The function within a guard; a coroutine function stays one.

    Args:
        make: the guard for a call with these arguments.
        refused: what entering raises when somebody else is in.
        on_conflict: what is then done: "skip" returns None, "delay" raises TryLater, else `refused` is raised.

    Raises:
        TypeError: a generator function, whose body runs after its call.
    """
    if inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
        raise TypeError(
            f"{function_name(func)}() is a generator function: its body would run after the context has exited."
        )

    @functools.wraps(func)
    def sync(*args: P.args, **kwargs: P.kwargs) -> R | None:
        has_entered = False
        try:
            with make(args, kwargs):  # not by an ExitStack: see `core.blocks`
                has_entered = True
                return func(*args, **kwargs)
        except refused as exc:
            if has_entered:
                raise
            _refuse(exc, on_conflict)
            return None

    @functools.wraps(func)
    async def asynchronous(*args: P.args, **kwargs: P.kwargs) -> Any:
        has_entered = False
        try:
            async with make(args, kwargs):
                has_entered = True
                return await cast(Any, func)(*args, **kwargs)
        except refused as exc:
            if has_entered:
                raise
            _refuse(exc, on_conflict)
            return None

    return cast("Callable[P, R]", asynchronous if is_async(func) else sync)


def _refuse(error: RedisComponentsError, on_conflict: str) -> None:
    if on_conflict == "delay":
        raise TryLater(str(error)) from error
    if on_conflict != "skip":
        raise error
