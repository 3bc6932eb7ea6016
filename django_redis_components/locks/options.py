"""Checks of a lock's options, and what reentrant locks of one name share."""

from __future__ import annotations

import dataclasses
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypedDict

from django_redis_components.core.leasing.owner import Records
from django_redis_components.core.leasing.wait_queue import wait_limit
from django_redis_components.core.units import Seconds, check_flag

_shared: weakref.WeakValueDictionary[tuple[str, str], Records] = weakref.WeakValueDictionary()
#: Reentrant, because a finalizer may make a lock while this thread does.
_guard = threading.RLock()


def _after_fork() -> None:
    """A thread of the parent may hold it for ever, as seen from here."""
    global _guard
    _guard = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


class LockOptions(TypedDict, total=False):
    """The options that all locks take beside `timeout`; what they mean is told at `Lock`."""

    renew: bool
    max_lease: Seconds | None
    blocking: bool
    blocking_timeout: Seconds | None
    reentrant: bool
    min_replicas: int
    on_lost: Callable[[Any], object] | None
    using: str


#: Most replicas that a grant may ask for.
MAX_REPLICAS = 100


@dataclasses.dataclass(frozen=True, slots=True)
class AcquireOptions:
    """How a lock is taken.

    Attributes:
        blocking: whether to wait.
        wait_limit_s: seconds to wait.
        reentrant: whether who holds it may enter again.
        min_replicas: how many replicas must have the grant.
        using: our connection alias.
    """

    blocking: bool
    wait_limit_s: float
    reentrant: bool
    min_replicas: int
    using: str

    def resolve(self, blocking: bool | None, blocking_timeout: Seconds | None) -> float:
        """Seconds to wait: what a call says, else what the object was told."""
        if blocking is not None:
            check_flag(blocking, "blocking")
        if blocking_timeout is not None:
            return wait_limit(blocking is not False, blocking_timeout)
        if blocking is None or blocking == self.blocking:
            return self.wait_limit_s
        return wait_limit(blocking, None)


def replicas(number: int) -> int:
    """Check how many replicas a grant needs.

    Raises:
        TypeError: not a whole number.
        ValueError: below 0 or above `MAX_REPLICAS`.
    """
    accepted = f"min_replicas={number!r}: expected a whole number from 0 to {MAX_REPLICAS}."
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(accepted)
    if not 0 <= number <= MAX_REPLICAS:
        raise ValueError(accepted)
    return number


def shared_records(using: str, key: str) -> Records:
    """What the owners of all reentrant locks of a key have, for as long as one of these locks is in use."""
    with _guard:
        records = _shared.get((using, key))
        if records is None:
            records = _shared[using, key] = Records()
        return records
