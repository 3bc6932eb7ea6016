"""What a page costs, counted where it is spent; and what a page may not ask at all."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import BlockingPop, Call, Command, SyncClientProtocol
from django_redis_components.dashboard import scanning
from django_redis_components.locks.scripts import INSPECT, INSPECT_RW
from django_redis_components.ratelimits.scripts import FIXED, GCRA, SLIDING
from django_redis_components.semaphores.scripts import INSPECT as INSPECT_PERMITS
from django_redis_components.taskqueue.store.scripts import (
    ERROR_GROUPS,
    LIST_SCHEDULES,
    QUEUE_STATS,
    READ_COUNTERS,
    TASK_COUNTERS,
)

#: Most commands of one page.
MAX_COMMANDS = 200
#: Most round trips of the overview: two for the queue, one more if visitors stand on another connection.
MAX_ROUND_TRIPS = 3
#: Commands whose cost does not grow with the data, or only with the keys that are named.
BOUNDED = {"BITCOUNT", "DBSIZE", "GET", "INFO", "LINDEX", "LLEN", "MGET", "PFCOUNT", "PTTL", "ZCARD", "ZCOUNT"}
#: Commands that are bounded by their fourth part, the last rank: below 0 they would read everything.
RANGES = {"LRANGE", "ZRANGE", "ZREVRANGE"}
#: Scripts that only read, and only so much.
SCRIPTS = {
    TASK_COUNTERS,
    ERROR_GROUPS,
    INSPECT,
    INSPECT_PERMITS,
    INSPECT_RW,
    READ_COUNTERS,
    LIST_SCHEDULES,
    QUEUE_STATS,
}
#: Scripts that only read if their first argument, the id of the call, is empty.
PEEKING = {FIXED, GCRA, SLIDING}


class UnboundedRead(RedisComponentsError):
    """A panel asked for what a page may not read: an unbounded command, a write, an unknown script."""


@dataclasses.dataclass(slots=True)
class Cost:
    """What reading took: commands sent, round trips, and seconds from the first word to the last."""

    commands: int = 0
    round_trips: int = 0
    seconds: float = 0.0


class CountingDoor:
    """A client that counts, for `protocol.run`."""

    def __init__(self, door: SyncClientProtocol, cost: Cost) -> None:
        self._door = door
        self._cost = cost

    def execute(self, request: Call | Command) -> Any:
        """Send one request."""
        reply = self._counted([request])[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def execute_many(self, requests: Sequence[Call | Command]) -> list[Any]:
        """Send requests in one round trip (on Cluster: in one for each node)."""
        return self._counted(requests)

    def wait(self, wakeup: str | BlockingPop, seconds: float) -> bytes | None:
        """Refuse: a page does not wait."""
        raise UnboundedRead(f"A page may not wait for {wakeup!r}.")

    def _counted(self, requests: Sequence[Call | Command]) -> list[Any]:
        for request in requests:
            check_bounded(request)
        self._cost.commands += len(requests)
        self._cost.round_trips += 1
        started = time.perf_counter()
        try:
            return self._door.execute_many(requests)
        finally:
            self._cost.seconds += time.perf_counter() - started


def check_bounded(request: Call | Command) -> None:
    """Raise UnboundedRead unless the request is known to be a bounded read."""
    if isinstance(request, Call):
        allowed = request.script in SCRIPTS or (request.script in PEEKING and request.args[0] == b"")
    elif request.args[0] == "SCAN":
        allowed = request.args[4:5] == ("COUNT",) and request.args[5] <= scanning.COUNT
    elif request.args[0] in RANGES:
        allowed = int(request.args[3]) >= 0
    else:
        allowed = request.args[0] in BOUNDED
    if not allowed:
        raise UnboundedRead(
            f"A page may not send {request.command_args()[:4]!r}: it is not known to be a bounded read."
        )
