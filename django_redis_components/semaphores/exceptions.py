"""What semaphores raise. Errors of the connection are those of `redis.exceptions`."""

from __future__ import annotations

from django_redis_components.core.exceptions import RedisComponentsError


class SemaphoreError(RedisComponentsError):
    """Root of the errors of semaphores.

    Attributes:
        name: the semaphore's name.
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class SemaphoreFull(SemaphoreError):
    """All permits are held, and waiting was not wanted or did not help.

    Attributes:
        limit: how many permits there are.
        waited_s: how long was waited, in seconds.
    """

    def __init__(self, name: str, limit: int, waited_s: float = 0.0) -> None:
        still = f"still full after {waited_s:g} s" if waited_s else "full"
        permits = "its only permit is" if limit == 1 else f"all {limit} permits are"
        super().__init__(name, f"Semaphore {name!r} is {still}: {permits} held by others.")
        self.limit = limit
        self.waited_s = waited_s


class TooManyPermits(SemaphoreError):
    """More permits were asked for than `Semaphore.set_limit` has left: no wait would bring them.

    Attributes:
        permits: how many were asked for.
        limit: how many there are.
    """

    def __init__(self, name: str, permits: int, limit: int) -> None:
        super().__init__(name, f"permits={permits}: semaphore {name!r} has a limit of {limit} since it was set.")
        self.permits = permits
        self.limit = limit


class PermitNotHeld(SemaphoreError):
    """The semaphore was not taken here, or was already given back."""

    def __init__(
        self,
        name: str,
        what: str = "is not held here: not taken by this thread or task, or already released",
    ) -> None:
        super().__init__(name, f"Semaphore {name!r} {what}.")


class PermitLost(PermitNotHeld):
    """The permit has expired while the work went on: somebody else may have its place by now."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "is lost: its permit expired while the work went on")
