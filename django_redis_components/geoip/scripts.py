"""The scripts of the ranges of addresses. The keys of one call share the hash tag of a name."""

from __future__ import annotations

from django_redis_components.core.scripts import LuaScript

FIND_RANGES = LuaScript("geoip", "find_ranges", keys=("base",), args=("addresses*",), idempotent=True)
LOAD_RANGES = LuaScript(
    "geoip", "load_ranges", keys=("base",), args=("generation", "ttl_ms", "blocks*"), idempotent=True
)
SWAP_RANGES = LuaScript(
    "geoip",
    "swap_ranges",
    keys=("base",),
    args=("generation", "blocks", "ranges", "source", "ttl_ms"),
    idempotent=True,
)
FORGET_RANGES = LuaScript("geoip", "forget_ranges", keys=("base",), args=("ttl_ms",), idempotent=True)
