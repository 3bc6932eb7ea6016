"""The base class of counters: a validated name, a connection, and the sync and async drivers."""

from __future__ import annotations

from typing import TypeVar

from django_redis_components.core import conf, keys
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Flow, arun, run
from django_redis_components.core.units import to_ms

T = TypeVar("T")

#: TTL of hours in milliseconds: 8 days, so that the last seven are complete.
SHORT_TTL_MS = 8 * 86_400 * 1_000


class Counter:
    """A named counter. Its keys share the Cluster slot of the name."""

    def __init__(self, name: str, *, using: str = "default") -> None:
        self.name = keys.validate_name(name)
        self.using = using

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _key(self, *parts: str) -> str:
        return keys.key("analytics", self.name, *parts)

    def _run(self, flow: Flow[T]) -> T:
        return run(connections.client(self.using), flow)

    async def _arun(self, flow: Flow[T]) -> T:
        return await arun(connections.aclient(self.using), flow)


def ttl_ms() -> int:
    """Return the TTL of a day's counters in milliseconds, counted from each write."""
    return to_ms(conf.settings().analytics.ttl_s, "ttl_s")
