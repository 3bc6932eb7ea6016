"""A model of each algorithm in plain Python, with fractions and lists: the scripts must give the same results.

If the clock went back, no time has passed since the state was written: `as_of` moves its times back by the step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction

#: allowed, blocked, and for each rate: remaining, microseconds until a retry and until the full limit.
Outcome = tuple[bool, bool, list[tuple[int, int, int]]]


@dataclass
class Bucket:
    """One rate by GCRA: the time at which the full limit is available, as a fraction of microseconds."""

    limit: int
    period_us: int
    free_at: Fraction = Fraction(0)
    written_at: int = 0

    def as_of(self, now: int) -> Bucket:
        back = max(0, self.written_at - now)
        return replace(self, free_at=self.free_at - back, written_at=self.written_at - back)

    def allows(self, now: int, cost: int) -> bool:
        return self._after(now, cost) <= now + self.period_us

    def take(self, now: int, cost: int) -> None:
        self.free_at, self.written_at = self._after(now, cost), now

    def refund(self, now: int, cost: int) -> None:
        self.free_at -= Fraction(cost * self.period_us, self.limit)
        self.written_at = now
        if self.free_at < now:
            self.free_at, self.written_at = Fraction(0), 0

    def state(self, now: int, cost: int) -> tuple[int, int, int]:
        free_at = max(self.free_at, Fraction(now))
        remaining = math.floor((now + self.period_us - free_at) * self.limit / self.period_us)
        retry_us = max(0, math.ceil(self._after(now, cost) - now - self.period_us))
        return remaining, retry_us, math.ceil(free_at - now)

    def _after(self, now: int, cost: int) -> Fraction:
        return max(self.free_at, Fraction(now)) + Fraction(cost * self.period_us, self.limit)


@dataclass
class Log:
    """One rate by an exact sliding window: the times of all hits."""

    limit: int
    period_us: int
    times: list[int] = field(default_factory=list)

    def as_of(self, now: int) -> Log:
        back = max(0, self.times[-1] - now) if self.times else 0
        return replace(self, times=[time - back for time in self.times])

    def allows(self, now: int, cost: int) -> bool:
        return len(self._live(now)) + cost <= self.limit

    def take(self, now: int, cost: int) -> None:
        self.times = self._live(now) + [now] * cost

    def refund(self, now: int, cost: int) -> None:
        self.times = self.times[:-cost]

    def state(self, now: int, cost: int) -> tuple[int, int, int]:
        live = self._live(now)
        waits = [0, *(time + self.period_us - now for time in live)]
        retry_us = next(wait for place, wait in enumerate(waits) if len(live) - place + cost <= self.limit)
        return self.limit - len(live), retry_us, waits[-1]

    def _live(self, now: int) -> list[int]:
        return [time for time in self.times if time > now - self.period_us]


@dataclass
class Window:
    """One rate by fixed windows."""

    limit: int
    period_us: int
    begin: int = 0
    used: int = 0
    written_at: int = 0

    def as_of(self, now: int) -> Window:
        back = max(0, self.written_at - now)
        return replace(self, begin=self.begin - back, written_at=self.written_at - back)

    def allows(self, now: int, cost: int) -> bool:
        return self._used(now) + cost <= self.limit

    def take(self, now: int, cost: int) -> None:
        used = self._used(now)
        if now >= self.begin + self.period_us:
            self.begin = now
        self.used, self.written_at = used + cost, now

    def refund(self, now: int, cost: int) -> None:
        if self._used(now):
            self.used, self.written_at = max(0, self.used - cost), now

    def state(self, now: int, cost: int) -> tuple[int, int, int]:
        used = self._used(now)
        left = self.begin + self.period_us - now
        return self.limit - used, 0 if self.allows(now, cost) else left, left if used else 0

    def _used(self, now: int) -> int:
        return self.used if now < self.begin + self.period_us else 0


KINDS = {"gcra": Bucket, "sliding": Log, "fixed": Window}


class Model:
    """A limit with several rates and perhaps a penalty."""

    def __init__(self, algorithm: str, rates: list[tuple[int, int]], penalty: tuple[int, int] | None) -> None:
        self._make = lambda: [KINDS[algorithm](limit, period_us) for limit, period_us in rates]
        self._penalty = penalty
        self.reset()

    def reset(self) -> None:
        self.rates = self._make()
        self.denials: list[int] = []
        self.blocked_at: int | None = None

    def decide(self, now: int, cost: int, *, counts: bool) -> Outcome:
        rates = [rate.as_of(now) for rate in self.rates]
        if counts:
            self.rates = rates
        if self._is_blocked(now, counts):
            return False, True, []
        allowed = all(rate.allows(now, cost) for rate in rates)
        if allowed and counts:
            for rate in rates:
                rate.take(now, cost)
        if not allowed and counts and self._deny(now):
            return False, True, []
        return allowed, False, [rate.state(now, cost) for rate in rates]

    def refund(self, now: int, cost: int) -> None:
        # A refund of a log removes the last hits, whatever their time.
        self.rates = [rate if isinstance(rate, Log) else rate.as_of(now) for rate in self.rates]
        for rate in self.rates:
            rate.refund(now, cost)

    def _is_blocked(self, now: int, counts: bool) -> bool:
        if self._penalty is None or self.blocked_at is None:
            return False
        blocked_at = min(self.blocked_at, now)
        if counts:
            self.blocked_at = blocked_at
        return now < blocked_at + self._penalty[1]

    def _deny(self, now: int) -> bool:
        if self._penalty is None:
            return False
        most, block_us = self._penalty
        self.blocked_at = None
        if self.denials and self.denials[-1] > now:
            self.denials = []
        self.denials.append(now)
        if sum(time > now - block_us for time in self.denials) < most:
            return False
        self.denials, self.blocked_at = [], now
        return True
