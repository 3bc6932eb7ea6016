"""A budget of time for all requests of a page: how long it waits for a Redis that is slow or unavailable, in total.

    with page_budget(1.0):
        visitors = UniqueVisitors("default").count(today)

It limits every request of the block, of any component, but not the wait for a lock or a message, which is asked for.
Only late replies and new connections look at it, so a request that is answered at once pays nothing.
"""

from __future__ import annotations

import contextvars
import math

from django_redis_components.core.units import Seconds, to_seconds

_budget: contextvars.ContextVar[page_budget | None] = contextvars.ContextVar("page_budget", default=None)


class page_budget:  # noqa: N801 - a context manager, used as a function
    """Limit how long the requests of a `with` block wait for Redis, in total.

    When the time is used up, requests raise `redis.exceptions.TimeoutError` after a tenth of a second, or
    `NotConnected` (a `redis.exceptions.ConnectionError`) at once if they would need a new connection. Waits for a
    Cluster slot that is being moved, and delays before retries, use it up, too. Tasks that the block starts on the
    event loop share its budget. A block inside another one has the smaller budget of the two.

    Args:
        seconds: the budget.

    Raises:
        TypeError, ValueError: `seconds` is not a positive duration.
    """

    def __init__(self, seconds: Seconds) -> None:
        self._left_s = to_seconds(seconds, "seconds")
        self._outer: page_budget | None = None

    def __enter__(self) -> page_budget:
        self._outer = _budget.get()
        _budget.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _budget.set(self._outer)

    @property
    def left_s(self) -> float:
        """The seconds that are left."""
        outer_s = math.inf if self._outer is None else self._outer.left_s
        return max(0.0, min(self._left_s, outer_s))

    def spend(self, seconds: float) -> None:
        """Use some of the time."""
        self._left_s -= seconds
        if self._outer is not None:
            self._outer.spend(seconds)


def current_budget() -> page_budget | None:
    """Return the budget of the innermost block, for a request whose replies arrive in another context."""
    return _budget.get()


def budget_left_s() -> float:
    """Return the seconds that requests may still wait here; infinite outside of a block."""
    budget = _budget.get()
    return math.inf if budget is None else budget.left_s


def spend(seconds: float) -> None:
    """Use some time of the budget, if there is one."""
    budget = _budget.get()
    if budget is not None:
        budget.spend(seconds)
