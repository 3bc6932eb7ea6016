"""Counts of this process, for limits with ``on_error="open"`` while Redis is slow or unavailable.

The same rates and algorithms as on the server, for the hits of this process alone: n processes allow at most n times
the limit. The memory is bounded: the counts of the keys that were hit longest ago are forgotten.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from django_redis_components.core.forks import after_fork_in_child
from django_redis_components.core.rates import ParsedRate
from django_redis_components.core.settings import conf
from django_redis_components.ratelimits.algorithms import RateState
from django_redis_components.ratelimits.decision import Decision, allowed, denied

#: Memory of all counts, in bytes. Lower: an attacker with many keys is forgotten earlier.
MAX_BYTES = 8 * 1024 * 1024
#: Estimated bytes of a count beside its key, and of each hit in a sliding window.
COUNT_BYTES, HIT_BYTES = 400, 150
#: Tolerated error of the sums of GCRA's intervals, in intervals.
_ERROR = 1e-6


class _Count(Protocol):
    """The hits of one key on one rate."""

    @property
    def size(self) -> int: ...
    def state(self, rate: ParsedRate, cost: int, now: float) -> RateState: ...
    def add(self, rate: ParsedRate, cost: int, now: float) -> None: ...


class _Gcra:
    __slots__ = ("full_at",)
    size = 0

    def __init__(self) -> None:
        self.full_at = 0.0

    def state(self, rate: ParsedRate, cost: int, now: float) -> RateState:
        interval_s = rate.period_us / 1_000_000 / rate.limit
        used = max(0.0, self.full_at - now) / interval_s
        excess = used + cost - rate.limit
        retry_s = excess * interval_s if excess > _ERROR else 0.0
        return RateState(rate, max(0, int(rate.limit - used + _ERROR)), retry_s, used * interval_s)

    def add(self, rate: ParsedRate, cost: int, now: float) -> None:
        self.full_at = max(self.full_at, now) + cost * rate.period_us / 1_000_000 / rate.limit


class _Sliding:
    __slots__ = ("hits", "used")

    def __init__(self) -> None:
        self.hits: deque[tuple[float, int]] = deque()
        self.used = 0

    @property
    def size(self) -> int:
        return len(self.hits) * HIT_BYTES

    def state(self, rate: ParsedRate, cost: int, now: float) -> RateState:
        period_s = rate.period_us / 1_000_000
        while self.hits and self.hits[0][0] <= now - period_s:
            self.used -= self.hits.popleft()[1]
        retry_s, excess = 0.0, self.used + cost - rate.limit
        for at, number in self.hits:
            if excess <= 0:
                break
            excess, retry_s = excess - number, at + period_s - now
        reset_s = self.hits[-1][0] + period_s - now if self.hits else 0.0
        return RateState(rate, max(0, rate.limit - self.used), retry_s, reset_s)

    def add(self, _: ParsedRate, cost: int, now: float) -> None:
        self.hits.append((now, cost))
        self.used += cost


class _Fixed:
    __slots__ = ("started_at", "used")
    size = 0

    def __init__(self) -> None:
        self.started_at, self.used = 0.0, 0

    def state(self, rate: ParsedRate, cost: int, now: float) -> RateState:
        left_s = self.started_at + rate.period_us / 1_000_000 - now
        if not self.used or left_s <= 0:
            return RateState(rate, rate.limit, 0.0, 0.0)
        retry_s = left_s if self.used + cost > rate.limit else 0.0
        return RateState(rate, max(0, rate.limit - self.used), retry_s, left_s)

    def add(self, rate: ParsedRate, cost: int, now: float) -> None:
        if not self.used or self.started_at + rate.period_us / 1_000_000 <= now:
            self.started_at, self.used = now, 0
        self.used += cost


_COUNTS: dict[str, type[_Count]] = {"gcra": _Gcra, "sliding": _Sliding, "fixed": _Fixed}


class LocalCounts:
    """The counts of all limits of this process."""

    def __init__(self) -> None:
        self._counts: dict[str, _Count] = {}
        self._mutex = threading.Lock()
        #: Estimated memory, in bytes.
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._counts)

    def decide(
        self, algorithm: str, rate_keys: Sequence[str], rates: Sequence[ParsedRate], cost: int, *, count: bool
    ) -> Decision:
        """Count a hit if all rates allow it.

        Args:
            count: False to return what a hit would return.
        """
        with self._mutex:
            now = time.monotonic()
            counts = [self._remove(key) or _COUNTS[algorithm]() for key in rate_keys]
            states = [each.state(rate, cost, now) for each, rate in zip(counts, rates, strict=True)]
            is_allowed = not any(state.retry_after for state in states)
            if is_allowed and count:
                for each, rate in zip(counts, rates, strict=True):
                    each.add(rate, cost, now)
                states = [each.state(rate, cost, now) for each, rate in zip(counts, rates, strict=True)]
            for key, each, state in zip(rate_keys, counts, states, strict=True):
                if state.reset_after > 0:  # the key that was hit last is the last in the dict
                    self._counts[key] = each
                    self.bytes += _size(key, each)
            while self.bytes > MAX_BYTES:
                self._remove(next(iter(self._counts)))
        found = allowed(tuple(states)) if is_allowed else denied(tuple(states))
        found.is_checked = False
        return found

    def remove(self, rate_keys: Sequence[str]) -> None:
        """Forget the counts of a key after a reset."""
        with self._mutex:
            for key in rate_keys:
                self._remove(key)

    def clear(self) -> None:
        """Forget all counts."""
        with self._mutex:
            self._counts.clear()
            self.bytes = 0

    def after_fork(self) -> None:
        """Replace the mutex in a forked child: a thread of the parent may have held it."""
        self._mutex = threading.Lock()

    def _remove(self, key: str) -> _Count | None:
        found = self._counts.pop(key, None)
        if found is not None:
            self.bytes -= _size(key, found)
        return found


def _size(key: str, count: _Count) -> int:
    return COUNT_BYTES + len(key) + count.size


#: The counts of this process.
LOCAL_COUNTS = LocalCounts()
conf.on_change(LOCAL_COUNTS.clear)
after_fork_in_child(LOCAL_COUNTS.after_fork)
