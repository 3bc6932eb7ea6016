"""The exceptions of aggregation."""

from __future__ import annotations

from django_redis_components.core.exceptions import RedisComponentsError


class AggregationError(RedisComponentsError):
    """Base class of the exceptions of aggregation."""


class DatabaseUnavailable(AggregationError):
    """Raised when a database file of places cannot be opened or read.

    Attributes:
        path: of the file.
        reason: why.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"The database of places {path!r} cannot be read: {reason}")
        self.path = path
        self.reason = reason


class InvalidRange(AggregationError):
    """Raised when a range of addresses is not valid, or ranges overlap. Nothing of the load is visible.

    Attributes:
        reason: what is wrong with it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RangesLoadExpired(AggregationError):
    """Raised when loaded ranges were removed before they became visible: the load paused too long, or was evicted."""

    def __init__(self, name: str, ttl_s: float) -> None:
        super().__init__(
            f"The load of ranges {name!r} is incomplete: it paused longer than {ttl_s:.0f} s, or the server removed"
            " keys. The ranges that were loaded before stay in use. Load them again."
        )
        self.name = name


class LogFileChanged(AggregationError):
    """Raised when a log file is shorter than what was counted of it: it was truncated or rewritten.

    Attributes:
        path: of the file.
        counted, size: bytes that were counted, and that it has.
    """

    def __init__(self, path: str, counted: int, size: int) -> None:
        super().__init__(
            f"The log file {path!r} has {size:,} bytes, but {counted:,} were counted: it was truncated or rewritten"
            " with the same first line. Nothing of it was counted now."
        )
        self.path = path
        self.counted = counted
        self.size = size
