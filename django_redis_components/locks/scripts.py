"""The scripts of this room; what each does, and its keys, stand at the head of its file in ``lua/``."""

from __future__ import annotations

from django_redis_components.core.scripts import LuaScript

_KEYS = ("lock", "fence", "queue", "alive")

#: Take the lock, or a place in line. A token is granted any number of times.
ACQUIRE = LuaScript(
    "locks",
    "acquire",
    keys=_KEYS,
    args=("token", "ttl_ms", "patience_ms", "handoff_ms", "fair"),
    idempotent=True,
)
#: Let go. Not repeated by itself: `core.turns.give_back` knows what the reply of a repetition means.
RELEASE = LuaScript("locks", "release", keys=_KEYS, args=("token", "handoff_ms", "fair"))
#: Leave the line, and hand on what was given meanwhile.
ABANDON = LuaScript("locks", "abandon", keys=_KEYS, args=("token", "handoff_ms", "fair"), idempotent=True)
#: Lengthen the lease.
EXTEND = LuaScript("locks", "extend", keys=("lock",), args=("token", "ttl_ms"), idempotent=True)
