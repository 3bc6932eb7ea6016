"""The scripts of Bloom filters, count-min sketches and top lists.

Adding is not idempotent: after a lost reply a repeated call would answer that a new item was not new, or count it
twice.
"""

from __future__ import annotations

from django_redis_components.core.scripts import LuaScript

ADD = LuaScript("bloom", "add", keys=("base",), args=("parameters", "look", "seen", "was_new", "items"))
CONTAINS = LuaScript("bloom", "contains", keys=("base",), args=("parameters", "items"), idempotent=True)
CREATE = LuaScript("bloom", "create", keys=("base",), args=("parameters", "generation", "layout"), idempotent=True)
LOOK = LuaScript("bloom", "look", keys=("base",), args=("generation",), idempotent=True)
DELETE = LuaScript("bloom", "delete", keys=("base",), idempotent=True)
REBUILD_BEGIN = LuaScript(
    "bloom", "rebuild_begin", keys=("base",), args=("token", "ttl_ms", "parameters", "layout"), idempotent=True
)
REBUILD_LOAD = LuaScript(
    "bloom", "rebuild_load", keys=("base",), args=("token", "ttl_ms", "look", "items"), idempotent=True
)
REBUILD_SWAP = LuaScript("bloom", "rebuild_swap", keys=("base",), args=("token",), idempotent=True)
REBUILD_ABANDON = LuaScript("bloom", "rebuild_abandon", keys=("base",), args=("token",), idempotent=True)
INCREMENT = LuaScript("bloom", "increment", keys=("sketch",), args=("width", "depth", "ttl_ms", "items"))
INCREMENT_TOP = LuaScript("bloom", "increment_top", keys=("base",), args=("parameters", "counters", "ttl_ms", "items*"))
READ_TOP = LuaScript("bloom", "read_top", keys=("base",), args=("parameters", "number"), reads_only=True)
