"""The scripts of this room; what each does, and its keys, stand at the head of its file in ``lua/``."""

from __future__ import annotations

from enum import IntEnum

from django_redis_components.core.scripts import LuaScript


class Found(IntEnum):
    """The first part of the reply of FETCH."""

    WAIT = 0
    HIT = 1
    EARLY = 2
    MISS = 3


#: Read, or be the one who computes, or wait.
FETCH = LuaScript("expiry", "fetch", keys=("value", "flight"), args=("token", "lease_ms", "eagerness"), idempotent=True)
#: Keep what was computed. Repeated after a lost reply it is refused, and nothing is changed.
STORE = LuaScript(
    "expiry", "store", keys=("value", "flight"), args=("token", "body", "ttl_ms", "delta_ms"), idempotent=True
)
#: Let another compute.
ABANDON = LuaScript("expiry", "abandon", keys=("flight",), args=("token", "void_ms"), idempotent=True)
#: Remove a value.
FORGET = LuaScript("expiry", "forget", keys=("value", "flight"), idempotent=True)
