"""The logic of a rate limit, as flows."""

from __future__ import annotations

import dataclasses
import os
import random
import re
import time
from typing import Any, Literal, get_args

from redis.exceptions import RedisError, ResponseError

from django_redis_components.core import circuit_breaker, keys
from django_redis_components.core.arguments import (
    check_choice,
    check_flag,
    check_int,
    check_string,
    id_text,
    short_repr,
)
from django_redis_components.core.circuit_breaker import OPEN_S, CircuitBreaker
from django_redis_components.core.exceptions import UnsupportedServer
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.leasing.forced_release import MAX_AUTHOR
from django_redis_components.core.leasing.holder import clean
from django_redis_components.core.protocol import BoundedSlotWait, Command, Flow, Sleep
from django_redis_components.core.rates import RateLike, parse_rate
from django_redis_components.core.units import Seconds, to_seconds
from django_redis_components.ratelimits.algorithms import AlgorithmName, HitRequest, algorithm_by_name
from django_redis_components.ratelimits.decision import Decision, allowed, blocked, denied, unchecked
from django_redis_components.ratelimits.denials import DENIALS
from django_redis_components.ratelimits.local_counts import LOCAL_COUNTS

#: What happens to hits while Redis is unavailable.
OnError = Literal["open", "closed"]
ON_ERROR: tuple[OnError, ...] = get_args(OnError)
#: Maximum rates of one limit: each adds a key to every call.
MAX_RATES = 8
#: Maximum denials of a penalty: the server stores the time and the id of each, about 20 bytes.
MAX_DENIALS = 10_000
#: Random seconds added to each delay of a waiting hit, so that waiters do not retry at the same moment.
WAIT_JITTER_S = (0.001, 0.005)
#: Seconds that a hit waits for a migrating Cluster slot before `on_error` decides: an HTTP request is waiting for it.
SLOT_MIGRATION_WAIT_S = 2.0

#: The longest block with an end, in seconds: a year.
MAX_BLOCK_S = 366 * 86_400
#: The length of a block that lasts until it is ended: ten years, so that each key expires and each header has a number.
ENDLESS_BLOCK_S = 10 * MAX_BLOCK_S
#: The scripts' reply code of an operator's block.
BLOCKED = -2

#: What operators write before the hash of a key.
HASH_PREFIX = "hash:"
#: The type of a key; keys are hashed, so any text is accepted.
LimitKey = str | bytes | int
#: Types of keys that are hashed as they are.
_TEXT = (str, bytes)


@dataclasses.dataclass(frozen=True, slots=True)
class HashedKey:
    """A key that is known by its hash only, as the dashboard lists the keys that were denied most.

    Raises:
        ValueError: it is not the hash of a key.
    """

    digest: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9a-f]{32}", self.digest):
            raise ValueError(f"digest={short_repr(self.digest)}: expected 32 hexadecimal digits.")

    def __str__(self) -> str:
        return f"{HASH_PREFIX}{self.digest}"


def key_of_text(text: str) -> str | HashedKey:
    """Return the key that an operator names: itself, or ``hash:`` and its hash."""
    if re.fullmatch(rf"{HASH_PREFIX}[0-9a-f]{{32}}", text):
        return HashedKey(text.removeprefix(HASH_PREFIX))
    return text


#: (denials, seconds): this many denials within this time block the key for the same time.
Penalty = tuple[int, Seconds]

_log = guarded_logger("django_redis_components.ratelimits")


def breaker_for(using: str, *, fails_open: bool) -> CircuitBreaker:
    """Return the circuit breaker of a connection. Limits that fail closed have their own: they wait longer."""
    return circuit_breaker.breaker_for(_breaker_name(using, fails_open))


def _breaker_name(using: str, fails_open: bool) -> str:
    return using if fails_open else f"{using} (closed)"


@dataclasses.dataclass(frozen=True, slots=True)
class RateLimitPolicy:
    """The configuration of a limit, as text and numbers.

    Attributes:
        rates: as text, in the given order.
        penalty: (denials, seconds), or None.
        on_error: "open" or "closed".
        using: connection alias.
    """

    name: str
    algorithm: str
    rates: tuple[str, ...]
    penalty: tuple[int, float] | None
    on_error: str
    using: str

    @property
    def id(self) -> str:
        """An identifier for links and forms; equal in every process that has such a limit."""
        text = repr((self.name, self.algorithm, self.rates, self.penalty, self.on_error, self.using))
        return keys.digest(text)[:16]


class Limiter:
    """The logic of `RateLimit`, without a connection."""

    def __init__(
        self,
        name: str,
        rates: tuple[RateLike, ...],
        algorithm: AlgorithmName,
        penalty: Penalty | None,
        on_error: OnError,
        deny_cache: bool,
        using: str,
    ) -> None:
        self.name = keys.validate_name(name, "rate limit name")
        self.algorithm = algorithm_by_name(algorithm)
        self.rates = tuple(parse_rate(rate) for rate in rates)
        self._max_cost = self._check_rates(rates)
        self._denials, self._block_us = _parse_penalty(penalty)
        self.fails_open = check_choice(on_error, "on_error", ON_ERROR) == "open"
        self._deny_cache = check_flag(deny_cache, "deny_cache")
        self._using = check_string(using, "using")
        self._breaker_name = _breaker_name(using, self.fails_open)
        self._key_suffixes = tuple(f":{self.algorithm.name}:{rate.limit}/{rate.period_us}" for rate in self.rates)
        self._signature = f"{using}{''.join(self._key_suffixes)}:{self._denials}/{self._block_us}"
        self._cost_1_requests = {denials: self._hit_request(1, denials) for denials in (self._denials, -self._denials)}

    def hit(self, key: LimitKey, cost: int, timeout: Seconds = 0, *, hit_id: bytes | None = None) -> Flow[Decision]:
        """Count a hit if all rates allow it within the timeout.

        Args:
            hit_id: 8 bytes that identify a repeated hit; None generates them.
        """
        base_key = self._base_key(key)
        if type(cost) is not int or cost != 1:  # no call for the usual cost
            cost = self.check_cost(cost)
        if timeout != 0 and (wait_s := to_seconds(timeout, "timeout", zero=True)):
            return self._wait(base_key, cost, time.monotonic() + wait_s)
        return self._decide(base_key, cost, hit_id, self._denials)

    def peek(self, key: LimitKey, cost: int) -> Flow[Decision]:
        """Return what a hit would return."""
        return self._decide(self._base_key(key), self.check_cost(cost), b"", self._denials)

    def read(self, key: LimitKey | HashedKey) -> Flow[Decision]:
        """Return what a hit of cost 1 would return, without the cache of denials and the circuit breaker.

        Raises:
            redis.exceptions.RedisError: the server does not answer.
        """
        base_key = self._base_key_of(key)
        request = self._cost_1_requests[self._denials]
        reply = yield request.read_call(f"{base_key}:penalty", self._rate_keys(base_key))
        return self._parse(reply, 1)

    def policy(self) -> RateLimitPolicy:
        """Return the configuration."""
        return RateLimitPolicy(
            name=self.name,
            algorithm=self.algorithm.name,
            rates=tuple(map(str, self.rates)),
            penalty=(self._denials, self._block_us / 1_000_000) if self._denials else None,
            on_error="open" if self.fails_open else "closed",
            using=self._using,
        )

    def refund(self, key: LimitKey, cost: int) -> Flow[None]:
        """Refund a hit."""
        base_key = self._base_key(key)
        call = self.algorithm.refund_call(self._rate_keys(base_key), self.rates, self.check_cost(cost))
        try:
            yield call
        finally:
            DENIALS.remove(base_key)

    def reset(self, key: LimitKey | HashedKey) -> Flow[None]:
        """Delete all counts and the block of a key."""
        base_key = self._base_key_of(key)
        try:
            yield Command("UNLINK", *self._rate_keys(base_key), f"{base_key}:penalty", retry=True)
        finally:
            DENIALS.remove(base_key)
            LOCAL_COUNTS.remove(self._rate_keys(base_key))

    def block(self, key: LimitKey | HashedKey, seconds: Seconds | None, author: str) -> Flow[None]:
        """Block a key for this time; None: until `unblock`."""
        lasts_s = ENDLESS_BLOCK_S if seconds is None else check_block(seconds)
        yield from self._set_block(key, max(1, round(lasts_s * 1_000_000)), author)

    def unblock(self, key: LimitKey | HashedKey) -> Flow[bool]:
        """End the block of a key. Return whether there was one."""
        return (yield from self._set_block(key, 0, ""))

    def check_cost(self, cost: Any) -> int:
        """Return the cost if a hit may have it.

        Raises:
            TypeError, ValueError: a hit cannot have this cost.
        """
        return check_int(cost, "cost", 1, self._max_cost, hint=", the lowest limit")

    def _set_block(self, key: LimitKey | HashedKey, blocked_us: int, author: str) -> Flow[bool]:
        base_key = self._base_key_of(key)
        block = {
            "penalty": f"{base_key}:penalty",
            "blocked_us": blocked_us,
            "author": clean(check_string(author, "author"), MAX_AUTHOR),
        }
        try:
            done = yield self.algorithm.block_call(self._rate_keys(base_key), self.rates, block)
        finally:
            DENIALS.remove(base_key)
        return bool(done)

    def _wait(self, base_key: str, cost: int, deadline: float) -> Flow[Decision]:
        """Count a hit as soon as it is allowed; return the denial at once if that is after the deadline."""
        while True:
            decision = yield from self._decide(base_key, cost, None, -self._denials)
            if decision.is_allowed or time.monotonic() + decision.retry_after > deadline:
                return decision
            yield Sleep(decision.retry_after + random.uniform(*WAIT_JITTER_S))

    def _decide(self, base_key: str, cost: int, hit_id: bytes | None, denials: int) -> Flow[Decision]:
        """Decide on a hit with this id. None generates one, but only if a request is sent."""
        if self._deny_cache:
            cached = DENIALS.get(base_key, (self._signature, cost))
            if cached is not None:
                return cached
        breaker, is_peek = circuit_breaker.breaker_for(self._breaker_name), hit_id == b""
        if not breaker.allows_request():
            return self._decide_without_redis(breaker, base_key, cost, is_peek)
        requested_at, epoch = time.monotonic(), DENIALS.epoch
        request = self._cost_1_requests[denials] if cost == 1 else self._hit_request(cost, denials)
        hit_id = os.urandom(8) if hit_id is None else hit_id
        call = request.call(f"{base_key}:penalty", self._rate_keys(base_key), hit_id)
        try:
            reply = yield BoundedSlotWait(SLOT_MIGRATION_WAIT_S, call)
        except (RedisError, UnsupportedServer) as exc:
            if isinstance(exc, ResponseError):  # the server answered
                breaker.record_success()
                breaker.reason = str(exc)
            else:
                breaker.record_failure(reason=exc)
            return self._decide_without_redis(breaker, base_key, cost, is_peek)
        breaker.record_success()
        decision = self._parse(reply, cost)
        # The server counts the denials that lead to a block, so those are not cached.
        if not decision.is_allowed and self._deny_cache and (decision.is_blocked or not self._denials):
            DENIALS.store(base_key, (self._signature, cost), decision, requested_at, epoch)
        return decision

    def _parse(self, reply: list[Any], cost: int) -> Decision:
        code = reply[0]
        if code < 0:
            return blocked(self.rates, reply[1], reply[2].decode("utf-8", "replace") if code == BLOCKED else None)
        states = self.algorithm.parse_states(self.rates, reply, cost)
        return allowed(states) if code else denied(states)

    def _decide_without_redis(self, breaker: CircuitBreaker, base_key: str, cost: int, is_peek: bool) -> Decision:
        """Decide by `on_error`: with "open" by the hits of this process."""
        if breaker.should_log(topic="rate limits"):
            outcome = "counted in this process" if self.fails_open else "denied"
            _log.warning("Rate limits cannot be checked, hits are %s: %s", outcome, breaker.reason)
        if not self.fails_open:
            return unchecked(self.rates, breaker.retry_after_s() or OPEN_S)
        return LOCAL_COUNTS.decide(self.algorithm.name, self._rate_keys(base_key), self.rates, cost, count=not is_peek)

    def _base_key(self, key: LimitKey) -> str:
        """Return the Redis key that all keys of this limit key start with. Each has its own Cluster slot."""
        if not isinstance(key, _TEXT):
            if not isinstance(key, int) or isinstance(key, bool):
                raise TypeError(f"key={short_repr(key)}: expected a string, bytes or an integer.")
            key = id_text(key, "key")
        return keys.key("ratelimits", f"{self.name}:{keys.digest(key)}")

    def _base_key_of(self, key: LimitKey | HashedKey) -> str:
        """See `_base_key`; also of a key that is known by its hash only."""
        if isinstance(key, HashedKey):
            return keys.key("ratelimits", f"{self.name}:{key.digest}")
        return self._base_key(key)

    def _rate_keys(self, base_key: str) -> list[str]:
        return [*map(base_key.__add__, self._key_suffixes)]

    def _hit_request(self, cost: int, denials: int) -> HitRequest:
        return HitRequest(self.algorithm, self.rates, cost, denials, self._block_us)

    def _check_rates(self, rates: tuple[RateLike, ...]) -> int:
        """Return the maximum cost of a hit."""
        if not 1 <= len(self.rates) <= MAX_RATES:
            raise ValueError(f"rates={short_repr(rates)}: expected 1 to {MAX_RATES} rates, such as '5/m'.")
        if len(set(self.rates)) < len(self.rates):
            raise ValueError(f"rates={short_repr(rates)}: duplicate rate.")
        for rate in self.rates:
            if rate.limit > self.algorithm.max_limit:
                raise ValueError(
                    f"rate={str(rate)!r}: algorithm={self.algorithm.name!r} counts at most {self.algorithm.max_limit}."
                )
        return min(rate.limit for rate in self.rates)


def check_block(seconds: Any) -> float:
    """Return the seconds of a block with an end.

    Raises:
        TypeError, ValueError: a block cannot last for this time.
    """
    found = to_seconds(seconds, "seconds")
    if found > MAX_BLOCK_S:
        raise ValueError(f"seconds={short_repr(seconds)}: expected at most {MAX_BLOCK_S}, a year; or None for no end.")
    return found


def _parse_penalty(penalty: Any) -> tuple[int, int]:
    """Return denials and microseconds of a penalty; zeros for None.

    Raises:
        TypeError, ValueError: it is not a penalty.
    """
    if penalty is None:
        return 0, 0
    if not isinstance(penalty, tuple | list) or len(penalty) != 2:
        raise TypeError(f"penalty={short_repr(penalty)}: expected (denials, seconds), such as (20, 600), or None.")
    denials, seconds = penalty
    check_int(denials, "penalty[0]", 1, MAX_DENIALS)
    return denials, max(1, round(to_seconds(seconds, "penalty[1]") * 1_000_000))
