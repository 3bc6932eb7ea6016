"""What the room's classes share: a checked name, a connection, and the two drivers."""

from __future__ import annotations

from typing import TypeVar

from django_redis_components.core import conf, keys
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Flow, arun, run
from django_redis_components.core.units import to_ms

T = TypeVar("T")


class Named:
    """Something with a name in the room ``analytics``; its keys share the name's Cluster slot."""

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
    """How long a day of counters lives from each write on, in milliseconds."""
    return to_ms(conf.settings().analytics.ttl_s, "ttl_s")
