"""The errors of locks. Connection errors are those of `redis.exceptions`."""

from __future__ import annotations

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.leasing.forced_release import ForcedRelease


class LockError(RedisComponentsError):
    """Root of the errors of locks.

    Attributes:
        name: the lock's name.
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class LockNotAcquired(LockError):
    """Another owner holds the lock, and the caller did not wait or reached its time limit.

    Or the lock was free, and Redis answered too late: after that limit, or after the end of the lease.

    Attributes:
        waited: seconds that the caller may wait; infinity without a limit.
    """

    def __init__(self, name: str, waited: float = 0.0, late_for: str = "") -> None:
        still = f"is still held by another owner after {waited:g} s" if waited else "is held by another owner"
        if late_for:
            still = f"was granted too late, and released: Redis answered after {late_for}"
        super().__init__(name, f"Lock {name!r} {still}.")
        self.waited = waited


class LockNotOwned(LockError):
    """The caller does not own the lock that it uses, or not any more.

    Attributes:
        forced_release: who released it by force, and when; None otherwise, or if that is not known.
    """

    def __init__(self, name: str, reason: str, forced_release: ForcedRelease | None = None) -> None:
        super().__init__(name, f"Lock {name!r} {reason}.")
        self.forced_release = forced_release


class LockLost(LockNotOwned):
    """The lease expired, or an operator has released it: another owner may hold the lock by now."""


class NotEnoughReplicas(LockError):
    """The lock was free, but too few replicas acknowledged the grant in time, and it was released.

    Attributes:
        wanted: how many replicas were required.
        acknowledged: how many have acknowledged it.
    """

    def __init__(self, name: str, wanted: int, acknowledged: int) -> None:
        super().__init__(
            name, f"Lock {name!r} was released: {acknowledged} of {wanted} replicas acknowledged the grant in time."
        )
        self.wanted = wanted
        self.acknowledged = acknowledged


class StaleFence(LockError):
    """A write under a fencing token was refused: the rows have been written under a later one, or are gone.

    Attributes:
        fence: the token that was too old.
    """

    def __init__(self, name: str, fence: int, what: str) -> None:
        super().__init__(name, f"{name} not written under fence {fence}: {what}.")
        self.fence = fence
