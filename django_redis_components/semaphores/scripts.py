"""The scripts of semaphores. The header of each file in ``lua/`` documents its keys and arguments."""

from __future__ import annotations

from django_redis_components.core.scripts import LuaScript

_KEYS = ("holders", "queue", "limit")

#: Acquire a permit, or a place in the queue. Idempotent by permit.
ACQUIRE = LuaScript(
    "semaphores",
    "acquire",
    keys=_KEYS,
    args=("permit", "description", "ttl_ms", "wait", "handoff_ms"),
    idempotent=True,
)
#: Release a permit. Not repeated by the client: `WaitQueue.release` knows what the reply to a repetition means.
RELEASE = LuaScript("semaphores", "release", keys=_KEYS, args=("permit", "released_by", "handoff_ms"))
#: After a release that has handed off: wake a connected waiter if the one that was chosen is not.
CONFIRM = LuaScript("semaphores", "confirm", keys=("base",), args=("handoff_ms",), idempotent=True)
#: Leave the queue, and release what was granted meanwhile.
ABANDON = LuaScript("semaphores", "abandon", keys=_KEYS, args=("permit", "handoff_ms"), idempotent=True)
#: Extend the lease of a permit.
EXTEND = LuaScript("semaphores", "extend", keys=("holders", "limit"), args=("permit", "ttl_ms"), idempotent=True)
#: Set the limit for all objects.
SET_LIMIT = LuaScript("semaphores", "set_limit", keys=_KEYS, args=("number", "handoff_ms"), idempotent=True)
#: Read the holders of permits and the waiters.
INSPECT = LuaScript("semaphores", "inspect", keys=_KEYS, args=("most", "liveness_ms"), idempotent=True)
