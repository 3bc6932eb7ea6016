"""The exceptions of aggregation."""

from __future__ import annotations

from django_redis_components.core.exceptions import RedisComponentsError


class AggregationError(RedisComponentsError):
    """Base class of the exceptions of aggregation."""


class NoRangesLoaded(AggregationError):
    """Raised when requests are to be counted by place, and there is no source of places.

    All would be counted as unknown, and their lines marked as counted.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"No ranges {name!r} are loaded: all places would be unknown. Nothing was counted. Load them by"
            ' manage.py load_ip_ranges, or set REDIS_COMPONENTS["GEOIP"]["MMDB"].'
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
            " log, call `recount_file` and count it again."
        )
        self.path = path
        self.counted = counted
        self.size = size
