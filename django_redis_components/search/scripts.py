"""The scripts of search. All are idempotent: they write by value."""

from __future__ import annotations

from django_redis_components.core.scripts import LuaScript

INDEX = LuaScript(
    "search",
    "index",
    keys=("base",),
    args=("id", "record", "length", "longitude", "latitude", "counts", "pairs*"),
    idempotent=True,
)
REMOVE = LuaScript("search", "remove", keys=("base",), args=("id",), idempotent=True)
SEARCH = LuaScript(
    "search",
    "search",
    keys=("base",),
    args=(
        "result",
        "reuse",
        "ttl_ms",
        "first",
        "count",
        "max_candidates",
        "prefix",
        "longitude",
        "latitude",
        "within_km",
        "sections*",
    ),
    idempotent=True,
)
