"""The scripts of file channels. All are idempotent: by the id of the file, the number of the chunk, or the consumer.

`ANNOUNCE` is repeated by its caller, which must know whether a reply was lost: the repeated call finds no file if all
consumers are done already.
"""

from __future__ import annotations

from django_redis_components.core.scripts import LuaScript

RESERVE = LuaScript(
    "files",
    "reserve",
    keys=("base",),
    args=("id", "bytes", "chunks", "limit", "max_files", "lease_ms", "ttl_ms", "waiting_ms", "fields*"),
    idempotent=True,
)
WRITE = LuaScript("files", "write", keys=("base",), args=("id", "number", "crc", "lease_ms", "data"), idempotent=True)
RENEW = LuaScript("files", "renew", keys=("base",), args=("id", "lease_ms"), idempotent=True)
ANNOUNCE = LuaScript("files", "announce", keys=("base",), args=("id", "sha256"))
SET_LIMIT = LuaScript("files", "set_limit", keys=("base",), args=("limit",), idempotent=True)
REMOVE = LuaScript("files", "remove", keys=("base",), args=("id",), idempotent=True)
REAP = LuaScript("files", "reap", keys=("base",), args=("count",), idempotent=True)
NEXT = LuaScript("files", "next", keys=("base",), args=("consumer", "after"), idempotent=True)
PROGRESS = LuaScript("files", "progress", keys=("base",), args=("id", "consumer", "kind", "offset"), idempotent=True)
DONE = LuaScript("files", "done", keys=("base",), args=("id", "consumer"), idempotent=True)
