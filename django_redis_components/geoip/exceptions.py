"""The exceptions of look-ups of IP addresses."""

from __future__ import annotations

from django_redis_components.core.exceptions import RedisComponentsError


class GeoIpError(RedisComponentsError):
    """Base class of the exceptions of this component."""


class DatabaseUnavailable(GeoIpError):
    """Raised when a database file of places cannot be opened or read, or has no countries.

    Attributes:
        path: of the file.
        reason: why.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"The database of places {path!r} cannot be read: {reason}")
        self.path = path
        self.reason = reason


class InvalidRange(GeoIpError):
    """Raised when a range of addresses is not valid, ranges overlap, or there is none with a country.

    Nothing of the load is visible, and the former ranges stay in use.

    Attributes:
        reason: what is wrong with it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
