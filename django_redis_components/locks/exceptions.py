"""What locks raise. Errors of the connection are those of `redis.exceptions`."""

from __future__ import annotations

from django_redis_components.core.exceptions import RedisComponentsError


class LockError(RedisComponentsError):
    """Root of the errors of locks.

    Attributes:
        name: the lock's name.
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class LockNotAcquired(LockError):
    """Somebody else holds the lock, and waiting was not wanted or did not help.

    Attributes:
        waited_s: how long was waited, in seconds.
    """

    def __init__(self, name: str, waited_s: float = 0.0) -> None:
        still = f"still held by somebody else after {waited_s:g} s" if waited_s else "held by somebody else"
        super().__init__(name, f"Lock {name!r} is {still}.")
        self.waited_s = waited_s


class LockNotOwned(LockError):
    """The lock was to be released or extended by somebody who does not hold it, or not any more."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(name, f"Lock {name!r} {what}.")


class LockLost(LockNotOwned):
    """The lease has ended while the work went on: somebody else may hold the lock by now."""


class NotEnoughReplicas(LockError):
    """The lock was free, but too few replicas acknowledged the grant in time, and it was given back.

    Attributes:
        wanted: how many were to.
        acknowledged: how many did.
    """

    def __init__(self, name: str, wanted: int, acknowledged: int) -> None:
        super().__init__(
            name, f"Lock {name!r} was given back: {acknowledged} of {wanted} replicas acknowledged the grant in time."
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
