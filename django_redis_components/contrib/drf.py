"""A throttle for Django REST framework that counts in Redis, atomically, with the package's rate limits.

In the settings of a site::

    REST_FRAMEWORK = {
        "DEFAULT_THROTTLE_CLASSES": ["django_redis_components.contrib.drf.RedisRateThrottle"],
        "DEFAULT_THROTTLE_RATES": {"api": "100/m"},
    }

Like the framework's own it is a class with a `scope` in ``DEFAULT_THROTTLE_RATES``, or a `rate`; subclasses set others.
Those read a list from Django's cache, change it and write it back, and so miss concurrent requests; this throttle
runs one script. ``DEFAULT_THROTTLE_RATES`` may name several rates for a scope: ``["10/s", "1000/h"]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, ClassVar

from django.core.checks import CheckMessage, Error

from django_redis_components.core.arguments import check_choice
from django_redis_components.core.client_address import client_address
from django_redis_components.core.exceptions import ConfigurationError, missing_extra
from django_redis_components.core.names import dotted_path
from django_redis_components.core.rates import RateLike
from django_redis_components.ratelimits import Decision, RateLimit
from django_redis_components.ratelimits.limiter import Penalty
from django_redis_components.ratelimits.request_keys import KEY_KINDS, django_request, request_key
from django_redis_components.ratelimits.responses import add_fields


class RedisRateThrottle:
    """Limits requests by user, or by address for anonymous users.

    Every answer has the RateLimit header fields; the framework adds Retry-After to a denial.

    Attributes:
        scope: names the limit, and its rate in ``DEFAULT_THROTTLE_RATES``.
        rate: a rate, or a list of them; None uses the framework's settings.
        key: "ip", "user" or "user_or_ip".
        algorithm, penalty, on_error, using: see `RateLimit`.

    Raises:
        TypeError, ValueError: a subclass sets an attribute that is not accepted. This is raised at its definition.
    """

    scope: ClassVar[str] = "api"
    rate: ClassVar[RateLike | list[RateLike] | None] = None
    key: ClassVar[str] = "user_or_ip"
    algorithm: ClassVar[str] = "gcra"
    penalty: ClassVar[Penalty | None] = None
    on_error: ClassVar[str] = "open"
    using: ClassVar[str] = "default"

    #: The decision for the request; the framework creates a throttle per request.
    decision: Decision | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        set_here = {name: getattr(cls, name) for name in ("rate", "key", *_OPTIONS)}
        # A property, say, has no value before the request.
        fixed = {name: value for name, value in set_here.items() if not hasattr(type(value), "__get__")}
        check_choice(fixed.get("key", "ip"), f"{cls.__name__}.key", KEY_KINDS)
        rates = _as_rates(fixed.pop("rate", None)) or ("1/s",)
        RateLimit("checks-the-options", *rates, **{name: fixed[name] for name in _OPTIONS if name in fixed})

    def allow_request(self, request: Any, view: Any) -> bool:
        """Count the request. It is limited unless `get_key` returns None, or the scope has no rate (None)."""
        rates = self.get_rates()
        key = self.get_key(request, view) if rates else None
        if key is None:
            return True
        limit = self._limit(rates)
        self.decision = limit.hit(key, request=django_request(request))
        headers = getattr(view, "headers", None)
        if headers is not None:  # the framework's views put these on the response, whatever it is
            add_fields(headers, limit.rates, self.decision)
        return self.decision.is_allowed

    def wait(self) -> float | None:
        """Seconds until the request would be allowed; the framework puts them into Retry-After."""
        return None if self.decision is None else self.decision.retry_after

    def get_ident(self, request: Any) -> str:
        """The visitor's address, behind as many proxies as the framework's ``NUM_PROXIES`` says.

        If that is None, `TRUSTED_PROXIES` applies. The framework's own throttles would then use all of
        ``X-Forwarded-For``, which the client can forge.
        """
        return client_address(request, _framework_settings().NUM_PROXIES)

    def get_key(self, request: Any, view: Any) -> str | None:
        """Return the key of the request; None if it is not limited."""
        return request_key(self.key, request, self.get_ident(request))

    def get_rates(self) -> tuple[RateLike, ...]:
        """Return the rates; empty if the scope is not limited.

        Raises:
            ConfigurationError: the framework's settings do not name the scope.
        """
        if self.rate is not None:
            return _as_rates(self.rate)
        named = _framework_settings().DEFAULT_THROTTLE_RATES
        if self.scope not in named:
            raise ConfigurationError(
                f'REST_FRAMEWORK["DEFAULT_THROTTLE_RATES"] has no rate for {self.scope!r}, '
                f"the scope of {type(self).__name__}. Add one, or set {type(self).__name__}.rate."
            )
        return _as_rates(named[self.scope])

    def _limit(self, rates: tuple[RateLike, ...]) -> RateLimit:
        options = tuple((name, _hashable(getattr(self, name))) for name in _OPTIONS)
        return _limit(self.scope, tuple(map(_hashable, rates)), options)


#: Attributes of a throttle that are options of `RateLimit`.
_OPTIONS = ("algorithm", "penalty", "on_error", "using")


@lru_cache(maxsize=256)
def _limit(scope: str, rates: tuple[RateLike, ...], options: tuple[tuple[str, Any], ...]) -> RateLimit:
    return RateLimit(scope, *rates, **dict(options))


def _as_rates(rates: Any) -> tuple[RateLike, ...]:
    """Return the rates of a setting: one, or a list of them. A list that begins with a number is one rate."""
    if rates is None:
        return ()
    is_many = isinstance(rates, list | tuple) and not (rates and isinstance(rates[0], int | float))
    return tuple(rates) if is_many else (rates,)


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def check_throttles() -> list[CheckMessage]:
    """Each throttle of the site's views whose rates in ``DEFAULT_THROTTLE_RATES`` are not accepted (drc.E051)."""
    return [
        Error(f"{dotted_path(throttle)}: {error}", id="drc.E051")
        for throttle in _used_throttles()
        if (error := _rates_error(throttle)) is not None
    ]


def _rates_error(throttle: type[RedisRateThrottle]) -> str | None:
    if throttle.get_rates is not RedisRateThrottle.get_rates:
        return None  # the rates may depend on the request
    try:
        made = throttle()
        rates = made.get_rates()
        if rates:
            made._limit(rates)
    except (TypeError, ValueError, ConfigurationError) as exc:
        return str(exc)
    return None


def _framework_settings() -> Any:
    """The framework's settings.

    Raises:
        ImportError: it is not installed.
    """
    try:
        from rest_framework.settings import api_settings
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] != "rest_framework":
            raise
        raise missing_extra("RedisRateThrottle", "djangorestframework", "drf") from exc
    return api_settings


def _used_throttles() -> list[type[RedisRateThrottle]]:
    """The throttles of the framework's default and of all views in the URLconf."""
    found: list[Any] = []
    with suppress(ImportError):  # the framework reports what it cannot import
        found += _framework_settings().DEFAULT_THROTTLE_CLASSES
    with suppress(Exception):  # Django's own check reports a URLconf that cannot be imported
        from django.urls import get_resolver

        found += _throttles_of(get_resolver().url_patterns)
    mine = {each for each in found if isinstance(each, type) and issubclass(each, RedisRateThrottle)}
    return sorted(mine, key=lambda throttle: (throttle.__module__, throttle.__qualname__))


def _throttles_of(patterns: Iterable[Any]) -> Iterator[Any]:
    for pattern in patterns:
        if hasattr(pattern, "url_patterns"):
            yield from _throttles_of(pattern.url_patterns)
        else:
            view = pattern.callback
            yield from getattr(getattr(view, "cls", None), "throttle_classes", ())
            yield from (getattr(view, "initkwargs", None) or {}).get("throttle_classes", ())
