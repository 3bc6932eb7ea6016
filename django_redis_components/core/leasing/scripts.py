"""The scripts of leases: one for each operation, and a version of it for each kind of lock or semaphore."""

from __future__ import annotations

from functools import partial

from django_redis_components.core.scripts import LuaScript


class KindScripts:
    """The scripts of one kind of lock or semaphore.

    Attributes:
        acquire: acquire a lease, or a place in the queue. Idempotent by token.
        release: release a lease. Not repeated by the client: `WaitQueue.release` knows what the reply to a repetition
            means.
        abandon: leave the queue, and release what was granted meanwhile.
        extend: extend a lease.
        read: read the lease of a token.
        inspect: read the holders and the waiters.
    """

    def __init__(self, kind: str) -> None:
        """Args: kind: component and part, whose Lua file is ``<component>/lua/shared/<part>.lua``."""
        make = partial(LuaScript, "core/leasing", kind=kind)
        base, queue = ("base",), ("base", "queue")
        self.acquire = make(
            "acquire",
            keys=queue,
            args=("token", "description", "ttl_ms", "wait", "handoff_ms", "options"),
            idempotent=True,
        )
        self.release = make("release", keys=queue, args=("token", "released_by", "handoff_ms", "options"))
        self.abandon = make("abandon", keys=queue, args=("token", "handoff_ms", "options"), idempotent=True)
        self.extend = make("extend", keys=base, args=("token", "ttl_ms", "options"), idempotent=True)
        self.read = make("read", keys=base, args=("token", "options"), reads_only=True)
        self.inspect = make("inspect", keys=queue, args=("most", "liveness_ms", "options"), reads_only=True)


#: After a release that has handed off: wake a connected waiter if the one that was chosen is not.
CONFIRM = LuaScript("core/leasing", "confirm", keys=("base",), args=("handoff_ms",), idempotent=True)
