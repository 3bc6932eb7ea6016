"""A client for the pages: it counts commands and round trips, and rejects writes and unbounded reads."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any, cast

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.observability.live_events import MAX_KEPT
from django_redis_components.core.protocol import BlockingPop, Call, Command, SyncClientProtocol
from django_redis_components.core.scripts import LuaScript
from django_redis_components.dashboard.locks import scan

#: Most commands that one page may send.
MAX_COMMANDS = 200
#: Commands whose cost is constant, or grows only with the number of their keys.
BOUNDED_COMMANDS = {
    "BITCOUNT", "DBSIZE", "GET", "HLEN", "HMGET", "INFO", "LINDEX", "LLEN", "MGET", "PFCOUNT", "PTTL", "SMISMEMBER",
    "TIME", "XLEN", "ZCARD", "ZCOUNT", "ZSCORE",
}  # fmt: skip
#: Commands bounded by their last rank (index 3). A negative rank would read the whole key.
RANGE_COMMANDS = {"GETRANGE", "LRANGE", "ZRANGE", "ZREVRANGE"}
#: Most members of a key that MEMORY USAGE may sample; 0 would sample all.
MAX_SAMPLES = 5


class UnboundedRead(RedisComponentsError):
    """A page tried to send a write, an unbounded command or an unknown script."""


@dataclasses.dataclass(slots=True)
class Cost:
    """The cost of reading a page: commands, round trips, and seconds spent waiting for Redis."""

    commands: int = 0
    round_trips: int = 0
    seconds: float = 0.0


class BoundedClient:
    """A client for `protocol.run` that counts, and checks each request."""

    def __init__(self, client: SyncClientProtocol, cost: Cost) -> None:
        self._client = client
        self._cost = cost

    def execute(self, request: Call | Command) -> Any:
        """Send one request."""
        reply = self._send([request])[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def execute_many(self, requests: Sequence[Call | Command]) -> list[Any]:
        """Send requests in one round trip (on Cluster: one per node)."""
        return self._send(requests)

    def wait(self, wakeup: str | BlockingPop, seconds: float) -> bytes | None:
        """Raise UnboundedRead: a page must not block."""
        raise UnboundedRead(f"A page must not block on {wakeup!r}.")

    def _send(self, requests: Sequence[Call | Command]) -> list[Any]:
        for request in requests:
            ensure_bounded(request)
        self._cost.commands += len(requests)
        self._cost.round_trips += 1
        started = time.perf_counter()
        try:
            return self._client.execute_many(requests)
        finally:
            self._cost.seconds += time.perf_counter() - started


def ensure_bounded(request: Call | Command) -> None:
    """Raise UnboundedRead unless the request is on the list of bounded reads, or a script that only reads."""
    if isinstance(request, Call):
        allowed = cast(LuaScript, request.script).reads_only
    elif request.args[0] == "SCAN":
        allowed = request.args[4:5] == ("COUNT",) and request.args[5] <= scan.COUNT
    elif request.args[0] == "XREVRANGE":
        allowed = request.args[4:5] == ("COUNT",) and request.args[5] <= MAX_KEPT
    elif request.args[:2] == ("MEMORY", "USAGE"):
        allowed = request.args[3:4] == ("SAMPLES",) and 0 < request.args[4] <= MAX_SAMPLES
    elif request.args[:2] == ("PUBSUB", "SHARDNUMSUB"):
        allowed = len(request.args) == 3
    elif request.args[0] in RANGE_COMMANDS:
        allowed = int(request.args[3]) >= 0
    else:
        allowed = request.args[0] in BOUNDED_COMMANDS
    if not allowed:
        raise UnboundedRead(
            f"A page must not send {request.command_args()[:4]!r}: it is not on the list of bounded reads."
        )
