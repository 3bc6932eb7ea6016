"""An in-process cache of denials: until a denial's `retry_after`, further hits are denied without a round trip.

A cached denial is certain unless a refund or reset happens first. A refund or reset of this process removes the entry;
one of another process takes effect when the entry expires: in the case of an operator's block after `BLOCK_S` seconds
at most. Expiry is monotonic time, counted from before the request was sent, so that an entry never outlives the denial
on the server.
"""

from __future__ import annotations

import threading
import time

from django_redis_components.core.forks import after_fork_in_child
from django_redis_components.core.settings import conf
from django_redis_components.ratelimits.decision import Decision

#: Keys in the cache; the oldest is evicted. About 700 bytes each.
MAX_KEYS = 10_000
#: Pairs of limit and cost that are cached for one key.
MAX_DENIALS_PER_KEY = 16
#: Seconds for which an operator's block is cached: after them all processes know that it was ended.
BLOCK_S = 5.0

#: A limit's signature and a cost.
LimitAndCost = tuple[str, int]


class DenialCache:
    """A bounded cache: key -> limit and cost -> end of the denial, expiry and decision."""

    def __init__(self) -> None:
        self._denials: dict[str, dict[LimitAndCost, tuple[float, float, Decision]]] = {}
        self._mutex = threading.Lock()
        #: Incremented by each removal. A denial that was requested before the removal is not stored.
        self.epoch = 0

    def __len__(self) -> int:
        return len(self._denials)

    def get(self, key: str, limit_and_cost: LimitAndCost) -> Decision | None:
        """Return the cached denial with its times as of now, or None if there is none."""
        denials = self._denials.get(key)
        found = denials and denials.get(limit_and_cost)
        if not found:
            return None
        ends_at, expires_at, decision = found
        now = time.monotonic()
        if now >= expires_at:
            return None
        left_s = ends_at - now
        reset_s = decision.reset_after - decision.retry_after + left_s
        return Decision(  # dataclasses.replace takes five times as long
            False,
            decision.limit,
            decision.remaining,
            left_s,
            max(left_s, reset_s),
            decision.is_blocked,
            True,
            decision.states,
            decision.blocked_by,
        )

    def store(
        self, key: str, limit_and_cost: LimitAndCost, decision: Decision, requested_at: float, epoch: int
    ) -> None:
        """Cache a denial.

        Args:
            requested_at: monotonic time before the request was sent.
            epoch: `epoch` at that time.
        """
        ends_at = requested_at + decision.retry_after
        expires_at = ends_at if decision.blocked_by is None else min(ends_at, requested_at + BLOCK_S)
        with self._mutex:
            if epoch != self.epoch:
                return
            denials = self._denials.pop(key, {})
            if len(denials) >= MAX_DENIALS_PER_KEY:
                denials = {}
            # Replace the dict, never change it: `get` reads without the mutex.
            self._denials[key] = {**denials, limit_and_cost: (ends_at, expires_at, decision)}
            if len(self._denials) > MAX_KEYS:
                del self._denials[next(iter(self._denials))]

    def remove(self, key: str) -> None:
        """Remove the denials of a key after a refund or reset."""
        with self._mutex:
            self.epoch += 1
            self._denials.pop(key, None)

    def clear(self) -> None:
        """Remove all denials."""
        with self._mutex:
            self.epoch += 1
            self._denials.clear()

    def after_fork(self) -> None:
        """Replace the mutex in a forked child: a thread of the parent may have held it."""
        self._mutex = threading.Lock()


#: The cache of this process.
DENIALS = DenialCache()
conf.on_change(DENIALS.clear)
after_fork_in_child(DENIALS.after_fork)


def clear_denial_cache() -> None:
    """Remove all denials that this process has cached.

    For tests that delete the keys of a limit in Redis: otherwise a cached denial outlives the deleted keys.
    """
    DENIALS.clear()
