"""The exceptions of aggregation."""

from __future__ import annotations

from django_redis_components.core.exceptions import RedisComponentsError


class AggregationError(RedisComponentsError):
    """Base class of the exceptions of aggregation."""


class DatabaseUnavailable(AggregationError):
    """Raised when a database file of places cannot be opened or read, or has no countries.

    Attributes:
        path: of the file.
        reason: why.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"The database of places {path!r} cannot be read: {reason}")
        self.path = path
        self.reason = reason


class InvalidRange(AggregationError):
    """Raised when a range of addresses is not valid, ranges overlap, or there is none with a country.

    Nothing of the load is visible, and the former ranges stay in use.

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


class NoRangesLoaded(AggregationError):
    """Raised when requests are to be counted by place, and there is no source of places.

    All would be counted as unknown, and their lines marked as counted.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"No ranges {name!r} are loaded: all places would be unknown. Nothing was counted. Load them by"
            ' manage.py load_ip_ranges, or set REDIS_COMPONENTS["AGGREGATION"]["MMDB"].'
        )
        self.name = name


class KeyMismatch(AggregationError):
    """Raised when an aggregator has counts of another key function: they would be mixed. Nothing was counted.

    Attributes:
        name: of the aggregator.
        key_name: of the key function of this call.
    """

    def __init__(self, name: str, key_name: str, stored: str) -> None:
        super().__init__(
            f"The aggregator {name!r} counts by {stored!r}, and not by {key_name!r}. Nothing was counted. Use another"
            f" name, or key_name={stored!r} if the function was only renamed, or delete the counts."
        )
        self.name = name
        self.key_name = key_name


class LogDamaged(AggregationError):
    """Raised inside of this package when the rest of a compressed file cannot be read. Reports have its text."""


class LogFileChanged(AggregationError):
    """Raised when a log file lacks what was counted of it: it was truncated, or rewritten from the same first lines.

    Attributes:
        path: of the file.
        counted, size: bytes of its text that were counted, and bytes that it has.
    """

    def __init__(self, path: str, counted: int, size: int) -> None:
        super().__init__(
            f"The log file {path!r} has {size:,} bytes, and lacks the text up to byte {counted:,} that was counted: it"
            " was truncated or rewritten with the same first lines. Nothing of it was counted now. If it is another"
            " log, forget the file and count it again."
        )
        self.path = path
        self.counted = counted
        self.size = size
