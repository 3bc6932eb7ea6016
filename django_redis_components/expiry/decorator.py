"""`@cached`."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from django_redis_components.core.client.connections import aclient, apage_client, client, page_client
from django_redis_components.core.decorators import function_name, is_async
from django_redis_components.core.name_templates import NameTemplate
from django_redis_components.core.protocol import arun, run
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.expiry.jitter import check_spread
from django_redis_components.expiry.options import (
    CacheOptions,
    OnError,
    check_function,
    check_on_error,
    parse_early,
    to_json,
)
from django_redis_components.expiry.single_flight import CachedCall

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class CachedFunction(Protocol[P, R_co]):
    """A function whose return values are cached."""

    #: Remove the value of these arguments; return whether there was one. For a method, pass its object first.
    invalidate: Callable[P, bool]
    #: The asyncio twin of `invalidate`.
    ainvalidate: Callable[P, Awaitable[bool]]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


def cached(
    key: str | Callable[..., str],
    ttl: Seconds,
    *,
    early: bool | float = True,
    lease: Seconds = 10.0,
    spread: float = 0.1,
    dumps: Callable[[Any], str | bytes] = to_json,
    loads: Callable[[bytes], Any] = json.loads,
    using: str = "default",
    on_error: OnError = "compute",
) -> Callable[[Callable[P, R]], CachedFunction[P, R]]:
    """Cache what a function, or a coroutine function, returns; among all processes one caller computes at a time.

    Every caller, including the one that computed, gets ``loads(dumps(value))``: a tuple becomes a list. None is a
    value like any other. Exceptions are raised in the call that computed, and not cached.

    Args:
        key: the name of the value: a constant, a template over the call's arguments (``"report:{customer.pk}"``), or
            a function of them.
        ttl: maximum age of a value in seconds.
        early: whether one caller recomputes a value before it expires; more likely the longer computing takes
            (XFetch). A number above 1 recomputes earlier, below 1 later.
        lease: seconds that callers wait for the computing caller, which may be dead. A caller that has waited twice
            that long computes for itself.
        spread: the share by which `ttl` may be shortened, drawn for each value (see `jitter`).
        dumps: serializes a value to text or bytes; JSON by default.
        loads: deserializes bytes.
        using: connection alias.
        on_error: while Redis is slow or away, "compute" calls the function, once at a time in each process; "raise"
            raises redis-py's error, as `invalidate` always does.

    Raises:
        TypeError, ValueError: an argument is not accepted, or the template names an argument that the function does
            not take. Raised when the function is decorated.
    """
    ttl_ms, lease_ms, eagerness = to_ms(ttl, "ttl"), to_ms(lease, "lease"), parse_early(early)
    share, fallback = check_spread(spread), check_on_error(on_error)
    check_function(dumps, "dumps")
    check_function(loads, "loads")

    def decorate(func: Callable[P, R]) -> CachedFunction[P, R]:
        if inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
            raise TypeError(f"{function_name(func)}() is a generator function: what it yields cannot be cached.")
        template = NameTemplate(key, func, "cache key")
        return _wrap(
            func, CacheOptions(func, template, ttl_ms, lease_ms, eagerness, dumps, loads, share, using, fallback)
        )

    return decorate


def _wrap(func: Callable[P, R], options: CacheOptions) -> CachedFunction[P, R]:
    computes = options.on_error == "compute"
    reader, areader = (page_client, apage_client) if computes else (client, aclient)

    @functools.wraps(func)
    def sync(*args: Any, **kwargs: Any) -> Any:
        return options.loads(run(reader(options.using), CachedCall(options, args, kwargs).fetch()))

    @functools.wraps(func)
    async def asynchronous(*args: Any, **kwargs: Any) -> Any:
        return options.loads(await arun(areader(options.using), CachedCall(options, args, kwargs).fetch()))

    def invalidate(*args: Any, **kwargs: Any) -> bool:
        return bool(run(client(options.using), CachedCall(options, args, kwargs).invalidate()))

    async def ainvalidate(*args: Any, **kwargs: Any) -> bool:
        return bool(await arun(aclient(options.using), CachedCall(options, args, kwargs).invalidate()))

    wrapper: Any = asynchronous if is_async(func) else sync
    wrapper.invalidate, wrapper.ainvalidate = invalidate, ainvalidate
    return cast("CachedFunction[P, R]", wrapper)
