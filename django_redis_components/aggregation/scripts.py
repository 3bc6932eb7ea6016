"""The scripts of aggregation. The keys of one call share the hash tag of a name."""

from __future__ import annotations

from django_redis_components.core.scripts import LuaScript

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
RECOUNT_FILE = LuaScript("aggregation", "recount_file", keys=("base",), args=("file", "first"), idempotent=True)
DELETE = LuaScript("aggregation", "delete", keys=("base",), args=("count",), idempotent=True)
