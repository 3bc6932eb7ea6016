"""The scripts of the ranges of addresses. The keys of one call share the hash tag of a name."""

from __future__ import annotations

from functools import partial

from django_redis_components.core.scripts import LuaScript

_script = partial(LuaScript, "geoip", keys=("base",), idempotent=True)

FIND_RANGES = _script("find_ranges", args=("addresses*",), reads_only=True)
REBUILD_BEGIN = _script("rebuild_begin", args=("token", "ttl_ms"))
REBUILD_LOAD = _script("rebuild_load", args=("token", "ttl_ms", "blocks*"))
REBUILD_SWAP = _script("rebuild_swap", args=("token", "blocks", "ranges", "source"))
REBUILD_ABANDON = _script("rebuild_abandon", args=("token",))
DELETE = _script("delete")
