"""The scripts of locks. The header of each file in ``lua/`` documents its keys and arguments."""

from __future__ import annotations

from django_redis_components.core.scripts import LuaScript

_KEYS = ("lock", "fence", "queue")

#: Acquire the lock, or a place in the queue. Idempotent by token.
ACQUIRE = LuaScript(
    "locks",
    "acquire",
    keys=_KEYS,
    args=("token", "description", "ttl_ms", "wait", "handoff_ms", "fair"),
    idempotent=True,
)
#: Release the lock. Not repeated by the client: `WaitQueue.release` knows what the reply to a repetition means.
RELEASE = LuaScript("locks", "release", keys=_KEYS, args=("token", "released_by", "handoff_ms", "fair"))
#: After a release that has handed off: wake a connected waiter if the one that was chosen is not.
CONFIRM = LuaScript("locks", "confirm", keys=("base",), args=("handoff_ms",), idempotent=True)
#: Leave the queue, and release what was granted meanwhile.
ABANDON = LuaScript("locks", "abandon", keys=_KEYS, args=("token", "handoff_ms", "fair"), idempotent=True)
#: Extend the lease.
EXTEND = LuaScript("locks", "extend", keys=("lock", "fence"), args=("token", "ttl_ms"), idempotent=True)
#: Read the holder and the waiters.
INSPECT = LuaScript(
    "locks", "inspect", keys=(*_KEYS, "asked", "handoffs", "base"), args=("most", "liveness_ms"), idempotent=True
)

#: The same for all names of a group or none of them.
ACQUIRE_MULTI = LuaScript(
    "locks",
    "acquire_multi",
    keys=("group",),
    args=("token", "description", "ttl_ms", "wait", "handoff_ms", "names*"),
    idempotent=True,
)
RELEASE_MULTI = LuaScript(
    "locks", "release_multi", keys=("group",), args=("token", "released_by", "handoff_ms", "names*")
)
ABANDON_MULTI = LuaScript(
    "locks", "abandon_multi", keys=("group",), args=("token", "handoff_ms", "names*"), idempotent=True
)
EXTEND_MULTI = LuaScript("locks", "extend_multi", keys=("group",), args=("token", "ttl_ms", "names*"), idempotent=True)
INSPECT_MULTI = LuaScript(
    "locks", "inspect_multi", keys=("group",), args=("most", "liveness_ms", "names*"), idempotent=True
)

_READWRITE_KEYS = ("writer", "readers", "fence", "queue")

#: The same for readers and writers. The suffix of the token distinguishes them.
ACQUIRE_READWRITE = LuaScript(
    "locks",
    "acquire_readwrite",
    keys=_READWRITE_KEYS,
    args=("token", "description", "ttl_ms", "wait", "handoff_ms"),
    idempotent=True,
)
RELEASE_READWRITE = LuaScript(
    "locks", "release_readwrite", keys=_READWRITE_KEYS, args=("token", "released_by", "handoff_ms")
)
ABANDON_READWRITE = LuaScript(
    "locks", "abandon_readwrite", keys=_READWRITE_KEYS, args=("token", "handoff_ms"), idempotent=True
)
EXTEND_READWRITE = LuaScript(
    "locks", "extend_readwrite", keys=("writer", "readers", "fence"), args=("token", "ttl_ms"), idempotent=True
)
INSPECT_READWRITE = LuaScript(
    "locks", "inspect_readwrite", keys=_READWRITE_KEYS, args=("most", "liveness_ms"), idempotent=True
)
