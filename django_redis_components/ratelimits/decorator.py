"""`@rate_limit`: limit the calls of a view or any function."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypedDict, TypeVar, Unpack, cast

from asgiref.sync import markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from django_redis_components.core.arguments import check_callable, short_repr
from django_redis_components.core.decorators import function_name, is_async, refuse_deferred_function
from django_redis_components.core.keys import MAX_NAME_BYTES, digest
from django_redis_components.core.name_templates import NameTemplate
from django_redis_components.core.names import dotted_path
from django_redis_components.core.rates import RateLike
from django_redis_components.ratelimits.algorithms import AlgorithmName
from django_redis_components.ratelimits.decision import Decision
from django_redis_components.ratelimits.exceptions import RateLimited
from django_redis_components.ratelimits.limit import RateLimit, check_cost
from django_redis_components.ratelimits.limiter import LimitKey, OnError, Penalty
from django_redis_components.ratelimits.request_keys import (
    KEY_KINDS,
    arequest_key,
    django_request,
    is_request,
    request_key,
)
from django_redis_components.ratelimits.responses import add_rate_limit_headers, too_many_requests

#: A kind of key, a template over the call's arguments, a function of them, or None for one limit for all calls.
Key = str | Callable[..., LimitKey] | None
#: Returns the response to a denied request.
Respond = Callable[[HttpRequest, Decision], HttpResponseBase]

_INVALID_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f{}]")
T = TypeVar("T", bound=Callable[..., Any])


class RateLimitOptions(TypedDict, total=False):
    """The options of `RateLimit` that `@rate_limit` accepts too."""

    algorithm: AlgorithmName
    penalty: Penalty | None
    on_error: OnError
    deny_cache: bool
    using: str


def rate_limit(
    *rates: RateLike,
    key: Key = "ip",
    cost: int = 1,
    name: str | None = None,
    response: Respond | None = None,
    **options: Unpack[RateLimitOptions],
) -> Callable[[T], T]:
    """Limit how often a view, a class-based view or a function is called.

    A function whose first argument is a request (of Django, or of Django REST framework) is a view: a denied request
    gets a response with status 429 and Retry-After, and every response has the RateLimit header fields. A denied call
    of any other function raises `RateLimited`.

    Args:
        rates: see `RateLimit`.
        key: "ip", "user" or "user_or_ip" of the request; a template over the call's arguments
            (``"{customer_id}"``); a function of them; None for one limit for all calls.
        cost: how much a call uses.
        name: the limit's name; None uses the function's. Functions with the same name share their counts. Without a
            name, several limits of a function that have a rate in common, or penalties, count apart.
        response: returns the response to a denied request, from the request and the `Decision`.
        options: algorithm, penalty, on_error, deny_cache and using of `RateLimit`.

    Raises:
        TypeError, ValueError: an argument is not accepted. Raised when the function is decorated.
    """

    def limited(func: Callable[..., Any], default_name: str) -> _LimitedFunction:
        limit = RateLimit(name or default_name, *rates, **options)
        number = 1
        while name is None and any(map(limit._shares_counts, _limits_of(func))):
            number += 1
            limit = RateLimit(_fitting(f"{default_name} {number}"), *rates, **options)
        return _LimitedFunction(func, limit, key, cost, response)

    checked_key = None if callable(key) or (isinstance(key, str) and "{" in key) else key
    _LimitedFunction(_placeholder, RateLimit("option-check", *rates, **options), checked_key, cost, response)
    return functools.partial(_decorate, limited)


def _decorate(limited: Callable[[Callable[..., Any], str], _LimitedFunction], func: T) -> T:
    if inspect.isclass(func):
        return cast(T, _limit_view_class(func, limited))
    if not callable(func):
        raise TypeError(f"{func!r} is not callable: put @rate_limit below @classmethod or @staticmethod.")
    if inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
        raise TypeError(f"{function_name(func)}() is a generator: its body runs after the call was counted.")
    return cast(T, _wrap(func, limited(func, _default_name(func)), is_async(func)))


def _wrap(func: Callable[..., Any], limited: _LimitedFunction, is_async: bool) -> Callable[..., Any]:
    @functools.wraps(func)
    def sync(*args: Any, **kwargs: Any) -> Any:
        return limited.call(args, kwargs)

    @functools.wraps(func)
    async def asynchronous(*args: Any, **kwargs: Any) -> Any:
        return await limited.acall(args, kwargs)

    wrapper: Any = markcoroutinefunction(asynchronous) if is_async else sync
    wrapper._rate_limits = (*_limits_of(func), limited.limit)
    return cast("Callable[..., Any]", wrapper)


def _limits_of(func: Callable[..., Any]) -> tuple[RateLimit, ...]:
    """Return the limits that a function has by other decorators."""
    return getattr(func, "_rate_limits", ())


class _LimitedFunction:
    """A function and its limit.

    Attributes:
        limit: the limit.
    """

    def __init__(
        self, func: Callable[..., Any], limit: RateLimit, key: Key, cost: int, respond: Respond | None
    ) -> None:
        check_cost(limit, cost)
        if respond is not None:
            check_callable(respond, "response", "a function of the request and the decision")
        refuse_deferred_function(respond, "response")
        self._func, self.limit, self._cost, self._respond = func, limit, cost, respond
        self._kind = key if key in KEY_KINDS else None
        if isinstance(key, str) and self._kind is None and "{" not in key:
            kinds = ", ".join(map(repr, KEY_KINDS))
            raise ValueError(
                f"key={short_repr(key)}: expected {kinds}, a template over the call's arguments such as"
                " '{customer_id}', a function of them, or None."
            )
        is_computed = key is not None and self._kind is None
        self._computed_key = NameTemplate(cast(Any, key), func, "rate limit key") if is_computed else None

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        request = _request_of(args, kwargs)
        key = request_key(self._kind, self._require(request)) if self._kind else self._key(args, kwargs)
        decision = self.limit.hit(key, self._cost, request=django_request(request))
        if not decision.is_allowed:
            return self._deny(request, decision)
        return self._add_headers(request, self._func(*args, **kwargs), decision)

    async def acall(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        request = _request_of(args, kwargs)
        key = await arequest_key(self._kind, self._require(request)) if self._kind else self._key(args, kwargs)
        decision = await self.limit.ahit(key, self._cost, request=django_request(request))
        if not decision.is_allowed:
            return self._deny(request, decision)
        return self._add_headers(request, await self._func(*args, **kwargs), decision)

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> LimitKey:
        return "" if self._computed_key is None else self._computed_key.format(args, kwargs)

    def _require(self, request: Any) -> Any:
        if request is None:
            raise TypeError(
                f"key={self._kind!r} of {function_name(self._func)}() needs a request as the first argument; "
                "for other functions use a template, a function or None."
            )
        return request

    def _deny(self, request: Any, decision: Decision) -> Any:
        if request is None:
            raise RateLimited(self.limit.name, decision)
        response = too_many_requests(decision) if self._respond is None else self._respond(request, decision)
        return self._add_headers(request, response, decision)

    def _add_headers(self, request: Any, result: Any, decision: Decision) -> Any:
        if request is not None and isinstance(result, HttpResponseBase):
            add_rate_limit_headers(result, self.limit.rates, decision)
        return result


def _limit_view_class(view: Any, limited: Callable[[Callable[..., Any], str], _LimitedFunction]) -> Any:
    """Limit the requests of a class-based view, of any method."""
    if not callable(getattr(view, "dispatch", None)):
        raise TypeError(f"{view.__qualname__} is not a class-based view: it has no dispatch().")
    view.dispatch = _wrap(view.dispatch, limited(view.dispatch, _default_name(view)), bool(view.view_is_async))
    return view


def _request_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the request that a view, or a method of a class-based view, was called with, or None."""
    for argument in (*args[:2], kwargs.get("request")):
        if is_request(argument):
            return argument
    return None


def _default_name(func: Any) -> str:
    """Return the name of a function's limit; of a partial its function's, of a callable object its class's."""
    while isinstance(func, functools.partial):
        func = func.func
    return _fitting(_INVALID_IN_NAMES.sub("_", dotted_path(func)))


def _fitting(name: str) -> str:
    return name if len(name.encode()) <= MAX_NAME_BYTES else digest(name)


def _placeholder() -> None:
    """Replace the function while the options are checked, before it is known."""
