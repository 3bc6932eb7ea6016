"""The scripts of aggregation. The keys of one call share the hash tag of a name."""

from __future__ import annotations

from django_redis_components.core.scripts import LuaScript

FIND_RANGES = LuaScript("aggregation", "find_ranges", keys=("base",), args=("addresses*",), idempotent=True)
LOAD_RANGES = LuaScript(
    "aggregation", "load_ranges", keys=("base",), args=("generation", "ttl_ms", "blocks*"), idempotent=True
)
SWAP_RANGES = LuaScript(
    "aggregation",
    "swap_ranges",
    keys=("base",),
    args=("generation", "blocks", "ranges", "source", "ttl_ms"),
    idempotent=True,
)
FORGET_RANGES = LuaScript("aggregation", "forget_ranges", keys=("base",), args=("ttl_ms",), idempotent=True)
FLUSH = LuaScript(
    "aggregation",
    "flush",
    keys=("base",),
    args=(
        "file", "first", "head", "name", "key_name", "segment", "before", "mark", "lines", "bad", "max_keys", "ttl_ms",
        "counts*",
    ),
    idempotent=True,
)  # fmt: skip
FORGET_FILE = LuaScript("aggregation", "forget_file", keys=("base",), args=("file", "first"), idempotent=True)
DELETE = LuaScript("aggregation", "delete", keys=("base",), args=("count",), idempotent=True)
