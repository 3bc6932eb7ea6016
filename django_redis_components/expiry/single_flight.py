"""The logic of `@cached`: read the value; without one, compute it under a lease or wait for the caller that does.

The time of an early recomputation is chosen by XFetch (A. Vattani, F. Chierichetti, K. Lowenstein, "Optimal
Probabilistic Cache Stampede Prevention", PVLDB 8(8), 2015): when ``now - delta * beta * ln(random) >= expiry``, where
``delta`` is the duration of the last computation. XFetch needs no coordination; the lease also limits it to one caller.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import random
import secrets
import time
from collections.abc import Generator
from logging import WARNING
from typing import Any

from redis.exceptions import RedisError, TimeoutError

from django_redis_components.core.circuit_breaker import breaker_for
from django_redis_components.core.client.exceptions import NotConnected, SlotMigrating
from django_redis_components.core.decorators import refuse_awaitable
from django_redis_components.core.exceptions import Interruption, RedisComponentsError, UnsupportedServer
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.keys import key, validate_name
from django_redis_components.core.protocol import BoundedSlotWait, Wait
from django_redis_components.expiry.jitter import shorten
from django_redis_components.expiry.local_flight import ComputeLocally
from django_redis_components.expiry.options import CacheOptions
from django_redis_components.expiry.scripts import ABANDON, FETCH, FORGET, STORE, FetchResult

#: Leases that a caller waits in total: that of a caller that dies, and that of the next one.
MAX_WAIT_LEASES = 2
#: Seconds that a caller with a computed value waits for a migrating Cluster slot to store it.
SLOT_MIGRATION_WAIT_S = 1.0
#: Milliseconds after which an interrupted request has reached the server or never will.
CANCEL_TTL_MS = 5_000

_log = guarded_logger(__name__)

Steps = Generator[Any, Any, Any]


class _LeaseState(enum.Enum):
    """Whether this call may have the lease."""

    NONE = enum.auto()
    #: FETCH was sent and its reply was not read: the server may run it at any time.
    REQUESTED = enum.auto()
    HELD = enum.auto()


@dataclasses.dataclass(frozen=True, slots=True)
class Compute:
    """Call the cached function; the reply is the serialized value.

    The function never runs inside a flow: a generator cannot propagate its StopIteration.
    """

    options: CacheOptions
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def perform(self, _: object) -> bytes:
        """Call a function.

        Raises:
            TypeError: it returned an awaitable, or a value that cannot be stored.
        """
        value = self.options.func(*self.args, **self.kwargs)
        refuse_awaitable(value, self.options.func, "an awaitable cannot be cached; decorate a coroutine function")
        return self.options.serialize(value)

    async def aperform(self, _: object) -> bytes:
        """Call a coroutine function."""
        return self.options.serialize(await self.options.func(*self.args, **self.kwargs))


class CachedCall:
    """One call of a cached function."""

    def __init__(self, options: CacheOptions, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._options = options
        self._args = args
        self._kwargs = kwargs
        self._lease_state = _LeaseState.NONE
        self._token = secrets.token_hex(8)
        self._name = validate_name(options.name.format(args, kwargs), "cache key")
        self._value_key = key("expiry", self._name)
        self._lease_key = key("expiry", self._name, "lease")

    def fetch(self) -> Steps:
        """Return the serialized value. However the call ends, it leaves no lease."""
        try:
            return (yield from self._find_or_compute())
        except GeneratorExit:  # no request can be sent now
            raise
        except BaseException as exc:
            yield from self._give_up(exc)
            raise

    def _find_or_compute(self) -> Steps:
        deadline = time.monotonic() + MAX_WAIT_LEASES * self._options.lease_ms / 1_000
        while True:
            self._lease_state = _LeaseState.REQUESTED
            try:
                state, *rest = yield self._fetch()
            except (RedisError, UnsupportedServer) as exc:
                if self._options.on_error == "raise":
                    raise
                return (yield from self._compute_locally(exc))
            self._lease_state = _LeaseState.HELD if state in (FetchResult.EARLY, FetchResult.MISS) else _LeaseState.NONE
            if state == FetchResult.HIT:
                return rest[0]
            left_s = deadline - time.monotonic()
            if state != FetchResult.WAIT or left_s <= 0:
                return (yield from self._compute(rest[0] if state == FetchResult.EARLY else None))
            token, left_ms = rest
            yield Wait(f"{self._lease_key}:wakeup:{token.decode()}", min(left_ms / 1_000 + 0.001, left_s))

    def _compute_locally(self, error: Exception) -> Steps:
        """Compute without Redis, once at a time in this process."""
        self._lease_state = _LeaseState.NONE  # FETCH was rejected, or Redis is unreachable
        using = self._options.using
        if breaker_for(using).should_log(topic="cached values"):
            _log.warning("Cached values cannot be read, they are computed: %s", error)
        max_wait_s = MAX_WAIT_LEASES * self._options.lease_ms / 1_000
        computation = Compute(self._options, self._args, self._kwargs)
        return (yield ComputeLocally(computation, (using, self._name), max_wait_s))

    def invalidate(self) -> Steps:
        """Remove the value; return whether there was one."""
        return bool((yield FORGET(value=self._value_key, lease=self._lease_key)))

    def _fetch(self) -> Any:
        eagerness = self._options.eagerness
        return FETCH(
            value=self._value_key,
            lease=self._lease_key,
            token=self._token,
            lease_ms=self._options.lease_ms,
            eagerness=f"{random.expovariate(1.0) * eagerness:.6f}" if eagerness else "",
        )

    def _compute(self, valid_body: bytes | None) -> Steps:
        started_at = time.monotonic()
        try:
            body = yield Compute(self._options, self._args, self._kwargs)
        except Exception as exc:
            if valid_body is None or isinstance(exc, Interruption):
                raise
            yield from self._give_up(exc)
            message = "Cannot recompute %r early; using the value that is still valid."
            _log.log_exception(exc, message, self._name, level=WARNING)
            return valid_body
        yield from self._store(body, round((time.monotonic() - started_at) * 1_000))
        return body

    def _store(self, body: bytes, compute_ms: int) -> Steps:
        """Store the value. The caller gets it even if this fails."""
        try:
            store = STORE(
                value=self._value_key,
                lease=self._lease_key,
                token=self._token,
                body=body,
                ttl_ms=max(1, round(shorten(self._options.ttl_ms, self._options.spread))),
                compute_ms=max(1, compute_ms),
            )
            yield BoundedSlotWait(SLOT_MIGRATION_WAIT_S, store)
        except RedisError as exc:
            if breaker_for(self._options.using).should_log(topic="values to store"):
                _log.warning("The value of %r was computed but cannot be stored: %s", self._name, exc)
            is_reachable = not isinstance(exc, (TimeoutError, NotConnected, SlotMigrating))
            if is_reachable:  # the server answers, but rejected this value
                yield from self._give_up(exc)
        self._lease_state = _LeaseState.NONE

    def _give_up(self, error: BaseException) -> Steps:
        """Release the lease, and reject a FETCH that the server may run later."""
        if self._lease_state is _LeaseState.NONE:
            return
        is_pending = self._lease_state is _LeaseState.REQUESTED
        if is_pending and isinstance(error, RedisError | RedisComponentsError):
            return  # FETCH was rejected, or Redis is unreachable
        abandon = ABANDON(lease=self._lease_key, token=self._token, cancel_ms=CANCEL_TTL_MS if is_pending else 0)
        try:
            yield BoundedSlotWait(SLOT_MIGRATION_WAIT_S, abandon)
        except RedisError as exc:
            if breaker_for(self._options.using).should_log(topic="leases of values"):
                _log.warning("Waiters for %r wait until the lease expires: %s", self._name, exc)
        except GeneratorExit:
            raise
        except BaseException:  # interrupted during ABANDON
            with contextlib.suppress(RedisError):
                yield BoundedSlotWait(SLOT_MIGRATION_WAIT_S, abandon)
            raise
        self._lease_state = _LeaseState.NONE
