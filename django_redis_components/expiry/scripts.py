"""The scripts of expiry. The header of each file in ``lua/`` documents its keys, arguments and replies."""

from __future__ import annotations

from enum import IntEnum

from django_redis_components.core.scripts import LuaScript


class FetchResult(IntEnum):
    """The first item of the reply of FETCH."""

    WAIT = 0
    HIT = 1
    EARLY = 2
    MISS = 3


#: Read the value, or take the lease to compute it, or register as a waiter.
FETCH = LuaScript("expiry", "fetch", keys=("value", "lease"), args=("token", "lease_ms", "eagerness"), idempotent=True)
#: Store a computed value. A repetition after a lost reply changes nothing.
STORE = LuaScript(
    "expiry", "store", keys=("value", "lease"), args=("token", "body", "ttl_ms", "compute_ms"), idempotent=True
)
#: Release the lease without a value.
ABANDON = LuaScript("expiry", "abandon", keys=("lease",), args=("token", "cancel_ms"), idempotent=True)
#: Remove a value.
FORGET = LuaScript("expiry", "forget", keys=("value", "lease"), idempotent=True)
