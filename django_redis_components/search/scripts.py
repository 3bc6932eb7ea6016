"""The scripts of search. All are idempotent: they write by value, or know the token of a call that was repeated."""

from __future__ import annotations

from functools import partial

from django_redis_components.core.scripts import LuaScript

_script = partial(LuaScript, "search", keys=("root",), idempotent=True)

INDEX = _script(
    "index", args=("id", "record", "facets", "length", "longitude", "latitude", "force", "counts", "pairs*")
)
REMOVE = _script("remove", args=("id",))
SEARCH = _script(
    "search",
    args=(
        "result",
        "reuse",
        "ttl_ms",
        "first",
        "count",
        "max_candidates",
        "max_shown",
        "max_results",
        "prefix",
        "longitude",
        "latitude",
        "within_km",
        "sections*",
    ),
)
MEASURE = _script("measure", reads_only=True)
LIST_IDS = _script("list_ids", args=("cursor", "count"), reads_only=True)
READ_DOCUMENTS = _script("read_documents", args=("name_count", "names*"), reads_only=True)
REBUILD_BEGIN = _script("rebuild_begin", args=("token", "ttl_ms", "data_ttl_ms"))
REBUILD_LOAD = _script(
    "rebuild_load",
    args=("token", "ttl_ms", "id", "record", "facets", "length", "longitude", "latitude", "counts", "pairs*"),
)
REBUILD_KEEP = _script("rebuild_keep", args=("token", "ttl_ms", "part", "cursor", "limit"))
REBUILD_SWAP = _script("rebuild_swap", args=("token",))
REBUILD_ABANDON = _script("rebuild_abandon", args=("token",))
DROP_GENERATION = _script("drop_generation", args=("limit",))
DELETE = _script("delete")
