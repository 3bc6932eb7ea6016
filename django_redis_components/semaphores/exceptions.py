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
