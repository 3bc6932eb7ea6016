"""`@rate_limit`: a view, or any function, that may be called so often."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypedDict, TypeVar, Unpack, cast

from asgiref.sync import markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from django_redis_components.core.decorators import function_name, is_async, refuse_coroutine_function
from django_redis_components.core.keys import MAX_NAME_BYTES, digest
from django_redis_components.core.name_templates import NameTemplate
from django_redis_components.core.rates import RateLike
from django_redis_components.ratelimits.decision import Decision
from django_redis_components.ratelimits.exceptions import RateLimited
from django_redis_components.ratelimits.limit import RateLimit
from django_redis_components.ratelimits.limiter import Penalty, VisitorKey
from django_redis_components.ratelimits.responses import describe, too_many_requests
from django_redis_components.ratelimits.visitors import WORDS, avisitor, django_request, is_request, visitor

#: A word, a template over the call's arguments, a function of them, or None for one limit for all calls.
Key = str | Callable[..., VisitorKey] | None
#: Makes the response to a request that is denied.
Respond = Callable[[HttpRequest, Decision], HttpResponseBase]

_REFUSED_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f{}]")
T = TypeVar("T", bound=Callable[..., Any])


class RateLimitOptions(TypedDict, total=False):
    """The options of `RateLimit` that `@rate_limit` hands on; see there."""

    algorithm: str
    penalty: Penalty | None
    on_error: str
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

    A call whose first argument is a request (of Django, or of Django REST framework) is a view: when it is denied, the
    answer is 429 with Retry-After, and every answer has the RateLimit header fields. Any other call that is denied
    raises `RateLimited`.

    Args:
        rates: see `RateLimit`.
        key: "ip", "user" or "user_or_ip" of the request; a template over the call's arguments
            (``"{customer_id}"``); a function of them; None for one limit for all calls.
        cost: how much a call uses.
        name: of the limit; None is the function's own name. Functions with one name share their counts.
        response: makes the answer to a denied request, from the view's request and the `Decision`.
        options: algorithm, penalty, on_error, deny_cache and using of `RateLimit`.

    Raises:
        TypeError, ValueError: an argument is not of this kind. This is told when the function is decorated.
    """

    def limited(func: Callable[..., Any], own_name: str) -> _Limited:
        return _Limited(func, RateLimit(name or own_name, *rates, **options), key, cost, response)

    _Limited(_any_function, RateLimit("checks-the-options", *rates, **options), _word_or_none(key), cost, response)
    return functools.partial(_decorated, limited)


def _decorated(limited: Callable[[Callable[..., Any], str], _Limited], func: T) -> T:
    if inspect.isclass(func):
        return cast(T, _limited_class(func, limited))
    if not callable(func):
        raise TypeError(f"{func!r} cannot be called: decorate the function below @classmethod or @staticmethod.")
    if inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
        raise TypeError(f"{function_name(func)}() is a generator: its body runs after the call was counted.")
    return cast(T, _wrapped(func, limited(func, _name_of(func)), is_async(func)))


def _wrapped(func: Callable[..., Any], limited: _Limited, is_async: bool) -> Callable[..., Any]:
    @functools.wraps(func)
    def sync(*args: Any, **kwargs: Any) -> Any:
        return limited.call(args, kwargs)

    @functools.wraps(func)
    async def asynchronous(*args: Any, **kwargs: Any) -> Any:
        return await limited.acall(args, kwargs)

    return markcoroutinefunction(asynchronous) if is_async else sync


class _Limited:
    """A function and its limit."""

    def __init__(
        self, func: Callable[..., Any], limit: RateLimit, key: Key, cost: int, respond: Respond | None
    ) -> None:
        limit.check_cost(cost)
        if respond is not None and not callable(respond):
            raise TypeError(f"response={respond!r}: expected a function of the request and the decision.")
        refuse_coroutine_function(respond, "response")
        self._func, self._limit, self._cost, self._respond = func, limit, cost, respond
        self._word = key if key in WORDS else None
        self._named = None
        if isinstance(key, str) and self._word is None:
            if "{" not in key:
                words = ", ".join(map(repr, WORDS))
                raise ValueError(
                    f"key={key!r}: expected {words}, a template over the call's arguments such as '{{customer_id}}', "
                    "a function of them, or None."
                )
            self._named = NameTemplate(key, func, "rate limit key")
        elif key is not None and self._word is None:
            self._named = NameTemplate(cast(Any, key), func, "rate limit key")

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        request = _request_of(args, kwargs)
        key = visitor(self._word, self._needed(request)) if self._word else self._key(args, kwargs)
        decision = self._limit.hit_of(django_request(request), key, self._cost)
        if not decision.allowed:
            return self._denied(request, decision)
        return self._described(request, self._func(*args, **kwargs), decision)

    async def acall(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        request = _request_of(args, kwargs)
        key = await avisitor(self._word, self._needed(request)) if self._word else self._key(args, kwargs)
        decision = await self._limit.ahit_of(django_request(request), key, self._cost)
        if not decision.allowed:
            return self._denied(request, decision)
        return self._described(request, await self._func(*args, **kwargs), decision)

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> VisitorKey:
        return "" if self._named is None else self._named.format(args, kwargs)

    def _needed(self, request: Any) -> Any:
        if request is None:
            raise TypeError(
                f"key={self._word!r} of {function_name(self._func)}() needs a request as the first argument; "
                "for other functions give a template, a function or None."
            )
        return request

    def _denied(self, request: Any, decision: Decision) -> Any:
        if request is None:
            raise RateLimited(self._limit.name, decision)
        response = too_many_requests(decision) if self._respond is None else self._respond(request, decision)
        return self._described(request, response, decision)

    def _described(self, request: Any, answer: Any, decision: Decision) -> Any:
        if request is not None and isinstance(answer, HttpResponseBase):
            describe(answer, self._limit.rates, decision)
        return answer


def _limited_class(view: Any, limited: Callable[[Callable[..., Any], str], _Limited]) -> Any:
    """A class-based view whose requests are limited, whatever their method."""
    if not callable(getattr(view, "dispatch", None)):
        raise TypeError(f"{view.__qualname__} is no class-based view: it has no dispatch().")
    view.dispatch = _wrapped(view.dispatch, limited(view.dispatch, _name_of(view)), bool(view.view_is_async))
    return view


def _request_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The request of a view, or of a method of a class-based view."""
    for argument in (*args[:2], kwargs.get("request")):
        if is_request(argument):
            return argument
    return None


def _name_of(func: Any) -> str:
    """The name of its limit. A partial is called as what it is of, an object that can be called as its class."""
    while isinstance(func, functools.partial):
        func = func.func
    named = func if hasattr(func, "__qualname__") else type(func)
    name = _REFUSED_IN_NAMES.sub("_", f"{named.__module__}.{named.__qualname__}")
    return name if len(name.encode()) <= MAX_NAME_BYTES else digest(name)


def _word_or_none(key: Key) -> Key:
    """What of a key can be checked without the function."""
    return None if callable(key) or (isinstance(key, str) and "{" in key) else key


def _any_function() -> None:
    """Stands for the function while the options are checked."""
