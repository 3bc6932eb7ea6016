"""Single flight within this process, for cached functions while Redis is unavailable.

Of concurrent calls for one value one computes, and the others get its value: an outage of Redis sends each process to
the database once for each value at a time, not each request. Nothing is kept: the next call computes again.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
import weakref
from typing import Protocol

from django_redis_components.core.forks import after_fork_in_child

#: A connection alias, and the name of a value.
Key = tuple[str, str]


class Computation(Protocol):
    """A call of the cached function; see `single_flight.Compute`."""

    def perform(self, _: object) -> bytes: ...
    async def aperform(self, _: object) -> bytes: ...


class _Flight:
    """A call that computes."""

    __slots__ = ("body", "has_ended")

    def __init__(self) -> None:
        self.has_ended = threading.Event()
        self.body: bytes | None = None


_flights: dict[Key, _Flight] = {}
_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Key, asyncio.Future[bytes | None]]]
_loops = weakref.WeakKeyDictionary()


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeLocally:
    """Call the cached function, unless this process does so already: then wait for its value.

    If that call fails, one of the waiting ones computes next. The reply is the serialized value.
    """

    computation: Computation
    key: Key
    #: Seconds that a call waits for others; then it computes for itself.
    max_wait_s: float

    def perform(self, client: object) -> bytes:
        """Compute in this thread, or wait for another one."""
        deadline = time.monotonic() + self.max_wait_s
        flight = _Flight()
        while (other := _flights.setdefault(self.key, flight)) is not flight:
            if not other.has_ended.wait(max(0.0, deadline - time.monotonic())):
                return self.computation.perform(client)
            if other.body is not None:
                return other.body
        try:
            flight.body = self.computation.perform(client)
            return flight.body
        finally:
            del _flights[self.key]
            flight.has_ended.set()

    async def aperform(self, client: object) -> bytes:
        """Compute in this task, or wait for another one of the event loop."""
        loop = asyncio.get_running_loop()
        flights, deadline = _loops.setdefault(loop, {}), loop.time() + self.max_wait_s
        while (other := flights.get(self.key)) is not None:
            await asyncio.wait([other], timeout=max(0.0, deadline - loop.time()))
            if not other.done():
                return await self.computation.aperform(client)
            if (found := other.result()) is not None:
                return found
        flight, body = loop.create_future(), None
        flights[self.key] = flight
        try:
            body = await self.computation.aperform(client)
            return body
        finally:
            del flights[self.key]
            flight.set_result(body)


def _after_fork() -> None:
    _flights.clear()


after_fork_in_child(_after_fork)
