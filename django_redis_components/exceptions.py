"""The base classes of the exceptions of this package, and the exceptions that several components raise.

Each component has its own base class, such as `locks.LockError`; all of them are a `RedisComponentsError`. Errors
of the connection are those of redis-py.
"""

from __future__ import annotations

from django_redis_components.core.client.exceptions import NotConnected, SlotMigrating
from django_redis_components.core.exceptions import (
    BaseInterruption,
    ConfigurationError,
    Interruption,
    RebuildSuperseded,
    RedisComponentsError,
    StoredFormatTooNew,
    TaskDelayed,
    UnknownConnection,
    UnsupportedServer,
)

__all__ = [
    "BaseInterruption",
    "ConfigurationError",
    "Interruption",
    "NotConnected",
    "RebuildSuperseded",
    "RedisComponentsError",
    "SlotMigrating",
    "StoredFormatTooNew",
    "TaskDelayed",
    "UnknownConnection",
    "UnsupportedServer",
]
