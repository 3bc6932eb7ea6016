"""What a rate limit does, as flows."""

from __future__ import annotations

import logging
import os
import random
import time
from typing import Any

from redis.exceptions import RedisError, ResponseError

from django_redis_components.core import conf, keys
from django_redis_components.core.circuit_breaker import PAUSE_S, CircuitBreaker
from django_redis_components.core.client import slot_migration as slots
from django_redis_components.core.exceptions import UnsupportedServer
from django_redis_components.core.protocol import BoundedSlotWait, Command, Flow, Sleep
from django_redis_components.core.rates import RateLike, parse_rate
from django_redis_components.core.units import Seconds, check_flag, to_seconds
from django_redis_components.ratelimits import decision as decisions
from django_redis_components.ratelimits.algorithms import algorithm_of
from django_redis_components.ratelimits.decision import Decision
from django_redis_components.ratelimits.denials import DENIALS
from django_redis_components.ratelimits.registry import Policy
from django_redis_components.ratelimits.requests import Question

#: What may happen to hits while Redis is away.
ON_ERROR = ("open", "closed")
#: Most rates of one limit: each is a key more in every call.
MAX_RATES = 8
#: Most denials that a penalty may count: the server keeps the time and the id of each, about 20 bytes.
MAX_DENIALS = 10_000
#: Shortest and longest random part of a pause in `wait`, in seconds: those who wait do not all come back at once.
SCATTER_S = (0.001, 0.005)
#: Seconds that a hit waits for a Cluster slot that is being moved, before `on_error` decides on it: a page waits too.
SLOT_WAIT_S = 2.0

#: What a visitor's key may be; it is hashed, so that its text matters to nobody.
VisitorKey = str | bytes | int
#: How many denials within how many seconds block for so many seconds.
Penalty = tuple[int, Seconds]

_log = logging.getLogger("django_redis_components.ratelimits")
_breakers: dict[str, CircuitBreaker] = {}
conf.on_change(_breakers.clear)


class Limiter:
    """The logic of `RateLimit`, without a connection."""

    def __init__(
        self,
        name: str,
        rates: tuple[RateLike, ...],
        algorithm: str,
        penalty: Penalty | None,
        on_error: str,
        deny_cache: bool,
        using: str,
    ) -> None:
        self.name = keys.validate_name(name, "rate limit name")
        self.algorithm = algorithm_of(algorithm)
        self.rates = tuple(parse_rate(rate) for rate in rates)
        self._most_cost = self._check_rates(rates)
        self._denials, self._block_us = _penalty(penalty)
        if on_error not in ON_ERROR:
            raise ValueError(f"on_error={on_error!r}: expected one of {', '.join(map(repr, ON_ERROR))}.")
        self._lets_through = on_error == "open"
        self._deny_cache = check_flag(deny_cache, "deny_cache")
        self._using = using
        self._parts = tuple(f":{self.algorithm.name}:{rate.limit}/{rate.period_us}" for rate in self.rates)
        self._signature = f"{using}{''.join(self._parts)}:{self._denials}/{self._block_us}"
        self._of_cost_1 = {denials: self._made(1, denials) for denials in (self._denials, -self._denials)}

    def hit(self, key: VisitorKey, cost: int) -> Flow[Decision]:
        """Count a hit if all rates allow it."""
        return self._ask(self._visitor(key), self.check_cost(cost), None, self._denials)

    def peek(self, key: VisitorKey, cost: int) -> Flow[Decision]:
        """What a hit would be told."""
        return self._ask(self._visitor(key), self.check_cost(cost), b"", self._denials)

    def look(self, key: VisitorKey) -> Flow[Decision]:
        """What the server says of a key, whatever this process remembers of it, and of the server.

        Raises:
            redis.exceptions.RedisError: the server does not answer.
        """
        visitor = self._visitor(key)
        reply = yield self._of_cost_1[self._denials].call(f"{visitor}:penalty", self._places(visitor), b"")
        return self._decide(reply, 1)

    @property
    def lets_through(self) -> bool:
        """Whether hits are allowed while Redis is away."""
        return self._lets_through

    def policy(self) -> Policy:
        """What it was told to be."""
        return Policy(
            name=self.name,
            algorithm=self.algorithm.name,
            rates=tuple(map(str, self.rates)),
            penalty=(self._denials, self._block_us / 1_000_000) if self._denials else None,
            on_error="open" if self._lets_through else "closed",
            using=self._using,
        )

    def wait(self, key: VisitorKey, timeout: Seconds, cost: int) -> Flow[Decision]:
        """Count a hit as soon as it is allowed; the denial, at once, when that is not within the timeout."""
        deadline = time.monotonic() + to_seconds(timeout, "timeout", zero=True)
        visitor = self._visitor(key)
        while True:
            decision = yield from self._ask(visitor, self.check_cost(cost), None, -self._denials)
            if decision.allowed or time.monotonic() + decision.retry_after > deadline:
                return decision
            yield Sleep(decision.retry_after + random.uniform(*SCATTER_S))

    def refund(self, key: VisitorKey, cost: int) -> Flow[None]:
        """Give back what a hit has used."""
        visitor = self._visitor(key)
        call = self.algorithm.refund(self._places(visitor), self.rates, self.check_cost(cost))
        try:
            yield call
        finally:
            DENIALS.forget(visitor)

    def reset(self, key: VisitorKey) -> Flow[None]:
        """Forget all that was counted, and a block."""
        visitor = self._visitor(key)
        try:
            yield Command("UNLINK", *self._places(visitor), f"{visitor}:penalty", retry=True)
        finally:
            DENIALS.forget(visitor)

    def _ask(self, visitor: str, cost: int, call_id: bytes | None, denials: int) -> Flow[Decision]:
        """Ask with this id, or one that is made only when the server is asked."""
        if self._deny_cache:
            known = DENIALS.find(visitor, (self._signature, cost))
            if known is not None:
                return known
        breaker = self._breaker()
        if not breaker.allows_request():
            return decisions.unchecked(self.rates, self._lets_through, breaker.retry_after_s())
        asked_at, epoch, waited_s = time.monotonic(), DENIALS.epoch, slots.waited_s()
        question = self._of_cost_1[denials] if cost == 1 else self._made(cost, denials)
        call_id = os.urandom(8) if call_id is None else call_id
        try:
            reply = yield BoundedSlotWait(
                SLOT_WAIT_S, question.call(f"{visitor}:penalty", self._places(visitor), call_id)
            )
        except (RedisError, UnsupportedServer) as exc:
            return self._without_redis(breaker, exc)
        if self._lets_through:  # a slot that moved says nothing of how slow the server is for other visitors
            breaker.record_success(time.monotonic() - asked_at - (slots.waited_s() - waited_s))
        else:
            breaker.record_success()
        decision = self._decide(reply, cost)
        # Before a block, the server must see each denial to count it.
        if not decision.allowed and self._deny_cache and (decision.blocked or not self._denials):
            DENIALS.store(visitor, (self._signature, cost), decision, asked_at, epoch)
        return decision

    def _breaker(self) -> CircuitBreaker:
        """The breaker of this connection. Limits that fail closed wait longer for an answer, and have their own."""
        name = self._using if self._lets_through else f"{self._using} (closed)"
        return _breakers.get(name) or _breakers.setdefault(name, CircuitBreaker())

    def gave_up(self) -> Decision:
        """The decision on a hit that was not answered in time."""
        return self._without_redis(self._breaker(), TimeoutError("no answer in time"))

    def _decide(self, reply: list[int], cost: int) -> Decision:
        verdict = reply[0]
        if verdict < 0:
            return decisions.blocked(self.rates, reply[1])
        states = self.algorithm.states(self.rates, reply, cost)
        return decisions.allowed(states) if verdict else decisions.denied(states)

    def _without_redis(self, breaker: CircuitBreaker, error: Exception) -> Decision:
        if isinstance(error, ResponseError):  # that was an answer, and came at once
            breaker.record_success()
        else:
            breaker.record_failure()
        if breaker.should_log():
            what = "let through" if self._lets_through else "denied"
            _log.warning("Redis does not check rate limits, hits are %s: %s", what, error)
        return decisions.unchecked(self.rates, self._lets_through, breaker.retry_after_s() or PAUSE_S)

    def _visitor(self, key: VisitorKey) -> str:
        """The key of a visitor: what the others begin with. Each visitor has a Cluster slot of its own."""
        if isinstance(key, int) and not isinstance(key, bool):
            key = str(key)
        elif not isinstance(key, str | bytes):
            raise TypeError(f"key={key!r}: expected a string, bytes or a whole number.")
        return keys.key("ratelimits", f"{self.name}:{keys.digest(key)}")

    def _places(self, visitor: str) -> list[str]:
        return [visitor + part for part in self._parts]

    def check_cost(self, cost: Any) -> int:
        """The cost, if it is one."""
        if isinstance(cost, int) and not isinstance(cost, bool):
            if 1 <= cost <= self._most_cost:
                return cost
            kind: type[Exception] = ValueError
        else:
            kind = TypeError
        why = f"; more than the limit of {self._most_cost} is never allowed" if kind is ValueError and cost > 1 else ""
        raise kind(f"cost={cost!r}: expected a whole number from 1 to {self._most_cost}{why}.")

    def _made(self, cost: int, denials: int) -> Question:
        return Question(self.algorithm, self.rates, cost, denials, self._block_us)

    def _check_rates(self, given: tuple[RateLike, ...]) -> int:
        """The most that a hit may cost."""
        if not 1 <= len(self.rates) <= MAX_RATES:
            raise ValueError(f"rates={given!r}: expected 1 to {MAX_RATES} rates, such as '5/m'.")
        if len(set(self.rates)) < len(self.rates):
            raise ValueError(f"rates={given!r}: the same rate stands there twice.")
        for rate in self.rates:
            if rate.limit > self.algorithm.most:
                raise ValueError(
                    f"rate={str(rate)!r}: algorithm={self.algorithm.name!r} counts at most {self.algorithm.most}."
                )
        return min(rate.limit for rate in self.rates)


def _penalty(penalty: Any) -> tuple[int, int]:
    """Denials and microseconds of a penalty; zeros for none.

    Raises:
        TypeError, ValueError: it is none.
    """
    if penalty is None:
        return 0, 0
    if not isinstance(penalty, tuple | list) or len(penalty) != 2:
        raise TypeError(f"penalty={penalty!r}: expected (denials, seconds), as (20, 600), or None.")
    denials, seconds = penalty
    if not isinstance(denials, int) or isinstance(denials, bool):
        raise TypeError(f"the denials of penalty={denials!r}: expected a whole number from 1 to {MAX_DENIALS}.")
    if not 1 <= denials <= MAX_DENIALS:
        raise ValueError(f"the denials of penalty={denials!r}: expected a whole number from 1 to {MAX_DENIALS}.")
    return denials, max(1, round(to_seconds(seconds, "the time of penalty") * 1_000_000))
