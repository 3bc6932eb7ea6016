"""The rate limits that this process has made and still uses, for who wants to look at them."""

from __future__ import annotations

import dataclasses
import os
import threading
import weakref
from typing import TYPE_CHECKING

from django_redis_components.core.keys import digest

if TYPE_CHECKING:
    from django_redis_components.ratelimits.limit import RateLimit


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """What a limit was told to be.

    Attributes:
        rates: as text, in the order in which they were given.
        penalty: how many denials within how many seconds block for so many seconds; None without one.
        on_error: "open" or "closed".
        using: our connection alias.
    """

    name: str
    algorithm: str
    rates: tuple[str, ...]
    penalty: tuple[int, float] | None
    on_error: str
    using: str

    @property
    def id(self) -> str:
        """Names it in links and forms; the same in each process that has such a limit."""
        return digest(repr((self.name, self.algorithm, self.rates, self.penalty, self.on_error, self.using)))[:16]


#: Weakly: a limit that is made for each request must not stay for ever.
_limits: weakref.WeakSet[RateLimit] = weakref.WeakSet()
_guard = threading.Lock()


def remember(limit: RateLimit) -> None:
    """Note a limit for as long as it is used."""
    with _guard:
        _limits.add(limit)


def known() -> dict[str, RateLimit]:
    """The limits by the id of their policies, in order of their names; one of those that are the same."""
    with _guard:
        limits = list(_limits)
    found = {limit.policy.id: limit for limit in limits}
    return dict(sorted(found.items(), key=lambda item: (item[1].name, item[0])))


def _after_fork() -> None:
    global _guard
    _guard = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
