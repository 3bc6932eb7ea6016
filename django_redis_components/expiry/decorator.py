"""`@cached`."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.decorators import function_name, is_async
from django_redis_components.core.name_templates import NameTemplate
from django_redis_components.core.protocol import arun, run
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.expiry.jitter import checked_spread
from django_redis_components.expiry.options import Recipe, check_callable, eagerness_of, to_json
from django_redis_components.expiry.single_flight import Flight

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class CachedFunction(Protocol[P, R_co]):
    """A function whose values are kept."""

    #: Remove the value of a call with these arguments; whether there was one. A method needs its object too.
    forget: Callable[P, bool]
    #: The asyncio twin of `forget`.
    aforget: Callable[P, Awaitable[bool]]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


def cached(
    key: str | Callable[..., str],
    timeout: Seconds,
    early: bool | float = True,
    *,
    lease: Seconds = 10.0,
    spread: float = 0.1,
    dumps: Callable[[Any], str | bytes] = to_json,
    loads: Callable[[bytes], Any] = json.loads,
    using: str = "default",
) -> Callable[[Callable[P, R]], CachedFunction[P, R]]:
    """Keep what a function, or a coroutine function, returns; among all processes one computes at a time.

    What a call returns is always what `loads` makes of what `dumps` made, also for the one who computed: a
    tuple comes back as a list. None is a value like any other. An error is the caller's, and is not kept.

    Args:
        key: the name of the value; a template over the call's arguments (``"report:{customer.pk}"``); or a
            function of them.
        timeout: seconds that a value is used at most.
        early: whether one caller computes the next value before the end of the last, the likelier the
            longer it takes (XFetch); a number above 1 does it earlier, below 1 later.
        lease: seconds that others wait for one who computes and may be dead. Nobody waits longer than
            twice that; then it computes for itself.
        spread: the share by which `timeout` may be shorter, drawn anew for each value (`jitter`).
        dumps: makes text or bytes of a value; JSON unless you say otherwise.
        loads: the way back, from bytes.
        using: our connection alias.

    Raises:
        TypeError, ValueError: an argument is not of its kind, or the template names an argument that the
            function does not take. All this is told when the function is decorated.
    """
    ttl_ms, lease_ms, eagerness = to_ms(timeout, "timeout"), to_ms(lease, "lease"), eagerness_of(early)
    share = checked_spread(spread)
    check_callable(dumps, "dumps")
    check_callable(loads, "loads")

    def decorate(func: Callable[P, R]) -> CachedFunction[P, R]:
        if inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
            raise TypeError(f"{function_name(func)}() is a generator: what it yields cannot be kept.")
        named = NameTemplate(key, func, "cache key")
        return _decorated(func, Recipe(func, named, ttl_ms, lease_ms, eagerness, dumps, loads, share, using))

    return decorate


def _decorated(func: Callable[P, R], recipe: Recipe) -> CachedFunction[P, R]:
    @functools.wraps(func)
    def sync(*args: Any, **kwargs: Any) -> Any:
        return recipe.loads(run(client(recipe.using), Flight(recipe, args, kwargs).fetch()))

    @functools.wraps(func)
    async def asynchronous(*args: Any, **kwargs: Any) -> Any:
        return recipe.loads(await arun(aclient(recipe.using), Flight(recipe, args, kwargs).fetch()))

    def forget(*args: Any, **kwargs: Any) -> bool:
        return bool(run(client(recipe.using), Flight(recipe, args, kwargs).forget()))

    async def aforget(*args: Any, **kwargs: Any) -> bool:
        return bool(await arun(aclient(recipe.using), Flight(recipe, args, kwargs).forget()))

    chosen: Any = asynchronous if is_async(func) else sync
    chosen.forget, chosen.aforget = forget, aforget
    return cast("CachedFunction[P, R]", chosen)
