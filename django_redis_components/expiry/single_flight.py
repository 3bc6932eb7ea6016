"""The logic of `@cached`: read; compute if nobody does; else wait for who does.

When to compute early is XFetch: A. Vattani, F. Chierichetti, K. Lowenstein, "Optimal Probabilistic Cache
Stampede Prevention", PVLDB 8(8), 2015: when ``now - delta * beta * ln(random) >= end``, for ``delta`` the
time that computing took. It needs no talk between the callers. Here one of them computes even so.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import logging
import random
import secrets
import time
from collections.abc import Generator
from typing import Any

from redis.exceptions import RedisError, TimeoutError

from django_redis_components.core.decorators import refuse_awaitable
from django_redis_components.core.exceptions import Interruption, NotConnected, RedisComponentsError, SlotMigrating
from django_redis_components.core.keys import key, validate_name
from django_redis_components.core.protocol import BoundedSlotWait, Wait
from django_redis_components.expiry.jitter import shortened
from django_redis_components.expiry.options import Recipe
from django_redis_components.expiry.scripts import ABANDON, FETCH, FORGET, STORE, Found

#: How many leases a caller waits in all: that of one who dies, and that of the one who follows.
PATIENCE_LEASES = 2
#: Seconds that a caller who has its value waits for a Cluster slot that is being moved, to keep it for others.
SLOT_WAIT_S = 1.0
#: Milliseconds after which a request that was cut off on its way has surely arrived, or never will.
VOID_MS = 5_000

_log = logging.getLogger(__name__)

Steps = Generator[Any, Any, Any]


class _Claim(enum.Enum):
    """Whether others may wait for this call."""

    NONE = enum.auto()
    #: FETCH was sent, and its reply has not been read: the server may run it now, or later.
    REQUESTED = enum.auto()
    HELD = enum.auto()


@dataclasses.dataclass(frozen=True, slots=True)
class Compute:
    """Call the site's function. The reply is what to store.

    The site's code runs here and never in a flow: a generator cannot pass its StopIteration on.
    """

    recipe: Recipe
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def perform(self, _: object) -> bytes:
        """Do it, synchronously.

        Raises:
            TypeError: it returned what must be awaited, and nobody will; or what cannot be stored.
        """
        value = self.recipe.func(*self.args, **self.kwargs)
        refuse_awaitable(value, self.recipe.func, "what it returns cannot be kept; decorate a coroutine function")
        return self.recipe.body(value)

    async def aperform(self, _: object) -> bytes:
        """Do it, on the event loop."""
        return self.recipe.body(await self.recipe.func(*self.args, **self.kwargs))


class Flight:
    """One call of a cached function."""

    def __init__(self, recipe: Recipe, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._recipe = recipe
        self._args = args
        self._kwargs = kwargs
        self._claim = _Claim.NONE
        self._token = secrets.token_hex(8)
        self._name = validate_name(recipe.name.format(args, kwargs), "cache key")
        self._value_key = key("expiry", self._name)
        self._flight_key = key("expiry", self._name, "flight")

    def fetch(self) -> Steps:
        """The stored form of the value for this call. Whatever ends it, nobody waits for it afterwards."""
        try:
            return (yield from self._find_or_compute())
        except GeneratorExit:  # nothing can be sent any more
            raise
        except BaseException as exc:
            yield from self._give_up(exc)
            raise

    def _find_or_compute(self) -> Steps:
        patience_ends_at = time.monotonic() + PATIENCE_LEASES * self._recipe.lease_ms / 1_000
        while True:
            self._claim = _Claim.REQUESTED
            state, *rest = yield self._fetch()
            self._claim = _Claim.HELD if state in (Found.EARLY, Found.MISS) else _Claim.NONE
            if state == Found.HIT:
                return rest[0]
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
            body = yield Compute(self._recipe, self._args, self._kwargs)
        except Exception as exc:
            if still_good is None or isinstance(exc, Interruption):
                raise
            yield from self._give_up(exc)
            _log.warning("Computing %r early failed; the value that is still good is used.", self._name, exc_info=exc)
            return still_good
        yield from self._store(body, round((time.monotonic() - began_at) * 1_000))
        return body

    def _store(self, body: bytes, delta_ms: int) -> Steps:
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
            yield BoundedSlotWait(SLOT_WAIT_S, store)
        except RedisError as exc:
            _log.warning("The value of %r was computed, and could not be stored: %s", self._name, exc)
            can_be_told = not isinstance(exc, (TimeoutError, NotConnected, SlotMigrating))
            if can_be_told:  # the server answers, and has refused this value
                yield from self._give_up(exc)
        self._claim = _Claim.NONE

    def _give_up(self, error: BaseException) -> Steps:
        """Have nobody wait for this call, not even if its FETCH is still on its way."""
        if self._claim is _Claim.NONE:
            return
        is_on_its_way = self._claim is _Claim.REQUESTED
        if is_on_its_way and isinstance(error, RedisError | RedisComponentsError):
            return  # FETCH was refused, or Redis is away and cannot be told
        abandon = ABANDON(flight=self._flight_key, token=self._token, void_ms=VOID_MS if is_on_its_way else 0)
        try:
            yield BoundedSlotWait(SLOT_WAIT_S, abandon)
        except RedisError as exc:
            _log.warning("Others wait for %r until the lease ends: %s", self._name, exc)
        except GeneratorExit:
            raise
        except BaseException:  # interrupted while it gave up
            with contextlib.suppress(RedisError):
                yield BoundedSlotWait(SLOT_WAIT_S, abandon)
            raise
        self._claim = _Claim.NONE
