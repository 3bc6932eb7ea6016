"""The scripts of this room; what each does, and its keys, stand at the head of its file in ``lua/``."""

from __future__ import annotations

from django_redis_components.core.scripts import LuaScript

_KEYS = ("holders", "queue", "limit")

#: Take a permit, or a place in the queue. A permit is granted any number of times.
ACQUIRE = LuaScript(
    "semaphores",
    "acquire",
    keys=_KEYS,
    args=("permit", "ttl_ms", "wait", "handoff_ms"),
    idempotent=True,
)
#: Give back. Not repeated by itself: `core.wait_queue.WaitQueue.release` knows what the reply of a repetition means.
RELEASE = LuaScript("semaphores", "release", keys=_KEYS, args=("permit", "handoff_ms"))
#: After a release that has handed over: see that a waiter that lives learns of it if nobody takes it.
CONFIRM = LuaScript("semaphores", "confirm", keys=("base",), args=("handoff_ms",), idempotent=True)
#: Leave the queue, and give back what was granted meanwhile.
ABANDON = LuaScript("semaphores", "abandon", keys=_KEYS, args=("permit", "handoff_ms"), idempotent=True)
#: Extend the lease of a permit.
REFRESH = LuaScript("semaphores", "refresh", keys=("holders", "limit"), args=("permit", "ttl_ms"), idempotent=True)
#: Change the limit for all.
SET_LIMIT = LuaScript("semaphores", "set_limit", keys=_KEYS, args=("number", "handoff_ms"), idempotent=True)
#: How many are held, and under which limit.
COUNT = LuaScript("semaphores", "count", keys=("holders", "limit"), idempotent=True)
#: Who holds them.
LIST = LuaScript("semaphores", "list", keys=("holders",), args=("most",), idempotent=True)
#: Who holds them, and how many wait.
INSPECT = LuaScript("semaphores", "inspect", keys=("holders", "limit"), args=("most", "liveness_ms"), idempotent=True)
