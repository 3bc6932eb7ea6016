"""The logic of `@cached`: read; compute if nobody does; else wait for who does.

When to compute early is XFetch: A. Vattani, F. Chierichetti, K. Lowenstein, "Optimal Probabilistic Cache
Stampede Prevention", PVLDB 8(8), 2015: when ``now - delta * beta * ln(random) >= end``, for ``delta`` the
time that computing took. It needs no talk between the callers. Here one of them computes even so.
"""

from __future__ import annotations

import dataclasses
import logging
import random
import secrets
import time
from collections.abc import Generator
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core.guards import refuse_awaitable
from django_redis_components.core.keys import key, validate_name
from django_redis_components.core.protocol import Wait, Within
from django_redis_components.expiry.recipe import Recipe
from django_redis_components.expiry.scripts import ABANDON, FETCH, FORGET, STORE, Found
from django_redis_components.expiry.spreading import shortened

#: How many leases a caller waits in all: that of one who dies, and that of the one who follows.
PATIENCE_LEASES = 2
#: Seconds that a caller who has its value waits for a Cluster slot that is being moved, to keep it for others.
SLOT_WAIT_S = 1.0

_log = logging.getLogger(__name__)

Steps = Generator[Any, Any, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Compute:
    """Call the site's function."""

    recipe: Recipe
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def perform(self, _: object) -> Any:
        """Do it, synchronously.

        Raises:
            TypeError: it returned what must be awaited, and nobody will.
        """
        value = self.recipe.func(*self.args, **self.kwargs)
        refuse_awaitable(value, self.recipe.func, "what it returns cannot be kept; decorate a coroutine function")
        return value

    async def aperform(self, _: object) -> Any:
        """Do it, on the event loop."""
        return await self.recipe.func(*self.args, **self.kwargs)


class Flight:
    """One call of a cached function."""

    def __init__(self, recipe: Recipe, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._recipe = recipe
        self._args = args
        self._kwargs = kwargs
        self._token = secrets.token_hex(8)
        self._name = validate_name(recipe.name.of(args, kwargs), "cache key")
        self._value_key = key("expiry", self._name)
        self._flight_key = key("expiry", self._name, "flight")

    def fetch(self) -> Steps:
        """The value for this call."""
        patience_ends_at = time.monotonic() + PATIENCE_LEASES * self._recipe.lease_ms / 1_000
        while True:
            state, *rest = yield self._fetch()
            if state == Found.HIT:
                return self._recipe.loads(rest[0])
            left_s = patience_ends_at - time.monotonic()
            if state != Found.WAIT or left_s <= 0:
                return (yield from self._compute(rest[0] if state == Found.EARLY else None))
            token, left_ms = rest
            yield Wait(f"{self._flight_key}:bell:{token.decode()}", min(left_ms / 1_000 + 0.001, left_s))

    def forget(self) -> Steps:
        """Remove the value; whether there was one."""
        return bool((yield FORGET(value=self._value_key, flight=self._flight_key)))

    def _fetch(self) -> Any:
        eagerness = self._recipe.eagerness
        return FETCH(
            value=self._value_key,
            flight=self._flight_key,
            token=self._token,
            lease_ms=self._recipe.lease_ms,
            eagerness=f"{random.expovariate(1.0) * eagerness:.6f}" if eagerness else "",
        )

    def _compute(self, still_good: bytes | None) -> Steps:
        began_at = time.monotonic()
        try:
            body = self._recipe.body((yield Compute(self._recipe, self._args, self._kwargs)))
        except BaseException as exc:
            yield from self._abandon()
            if still_good is None or not isinstance(exc, Exception):
                raise
            _log.warning("Computing %r early failed; the value that is still good is used.", self._name, exc_info=exc)
            return self._recipe.loads(still_good)
        yield from self._store(body, round((time.monotonic() - began_at) * 1_000))
        return self._recipe.loads(body.encode() if isinstance(body, str) else body)

    def _store(self, body: str | bytes, delta_ms: int) -> Steps:
        """Keep it. The caller has its value, whatever becomes of this."""
        try:
            store = STORE(
                value=self._value_key,
                flight=self._flight_key,
                token=self._token,
                body=body,
                ttl_ms=max(1, round(shortened(self._recipe.ttl_ms, self._recipe.spread))),
                delta_ms=max(1, delta_ms),
            )
            yield Within(SLOT_WAIT_S, store)
        except RedisError as exc:
            _log.warning("The value of %r was computed, and could not be stored: %s", self._name, exc)

    def _abandon(self) -> Steps:
        try:
            yield Within(SLOT_WAIT_S, ABANDON(flight=self._flight_key, token=self._token))
        except RedisError as exc:
            _log.warning("Others wait for %r until the lease ends: %s", self._name, exc)
