"""The scripts of file channels. All are idempotent: by the id of the file, the number of the chunk, or the consumer."""

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
ANNOUNCE = LuaScript("files", "announce", keys=("base",), args=("id", "sha256"), idempotent=True)
REMOVE = LuaScript("files", "remove", keys=("base",), args=("id",), idempotent=True)
REAP = LuaScript("files", "reap", keys=("base",), args=("count",), idempotent=True)
NEXT = LuaScript("files", "next", keys=("base",), args=("consumer", "after"), idempotent=True)
PROGRESS = LuaScript("files", "progress", keys=("base",), args=("id", "consumer", "kind", "offset"), idempotent=True)
DONE = LuaScript("files", "done", keys=("base",), args=("id", "consumer"), idempotent=True)
