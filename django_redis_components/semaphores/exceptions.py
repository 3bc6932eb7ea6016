"""The errors of semaphores. Connection errors are those of `redis.exceptions`."""

from __future__ import annotations

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.leasing.forced_release import ForcedRelease


class SemaphoreError(RedisComponentsError):
    """Root of the errors of semaphores.

    Attributes:
        name: the semaphore's name.
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class SemaphoreFull(SemaphoreError):
    """All permits are held, and the caller did not wait or reached its time limit.

    Or a permit was free, and Redis answered too late: after that limit, or after the end of the lease.

    Attributes:
        limit: number of permits.
        waited: seconds that the caller may wait; infinity without a limit.
    """

    def __init__(self, name: str, limit: int, waited: float = 0.0, late_for: str = "") -> None:
        still = f"still full after {waited:g} s" if waited else "full"
        permits = "its only permit is" if limit == 1 else f"all {limit} permits are"
        text = f"Semaphore {name!r} is {still}: {permits} held by other owners."
        if late_for:
            text = f"Semaphore {name!r} was granted too late, and released: Redis answered after {late_for}."
        super().__init__(name, text)
        self.limit = limit
        self.waited = waited


class TooManyPermits(SemaphoreError):
    """More permits were requested than `Semaphore.set_limit` allows, so that waiting would never succeed.

    Attributes:
        permits: how many were requested.
        limit: number of permits.
    """

    def __init__(self, name: str, permits: int, limit: int) -> None:
        super().__init__(name, f"Requested {permits} permits of semaphore {name!r}; the limit is {limit}.")
        self.permits = permits
        self.limit = limit


class PermitNotOwned(SemaphoreError):
    """The caller does not own the permit that it uses, or not any more.

    Attributes:
        forced_release: who released it by force, and when; None otherwise, or if that is not known.
    """

    def __init__(self, name: str, reason: str, forced_release: ForcedRelease | None = None) -> None:
        super().__init__(name, f"Permit of semaphore {name!r} {reason}.")
        self.forced_release = forced_release


class PermitLost(PermitNotOwned):
    """The lease of a permit expired, or an operator has released it: another owner may have the permit by now."""
