"""The scripts of analytics. The keys of one call share the hash tag of the counter's name."""

from __future__ import annotations

from django_redis_components.core.scripts import LuaScript

HIT = LuaScript("analytics", "hit", keys=("day",), args=("page", "ttl_ms", "max_pages"))
VISIT = LuaScript("analytics", "visit", keys=("day",), args=("ttl_ms", "ids*"), idempotent=True)
MERGE = LuaScript("analytics", "merge", keys=("scratch", "days*"), idempotent=True)
UNION = LuaScript("analytics", "union", keys=("scratch", "part"), args=("sketches*",), idempotent=True)
SIGN_IN = LuaScript(
    "analytics", "sign_in", keys=("user", "day", "claim"), args=("id", "offset", "token", "claim_ms"), idempotent=True
)
FORGET = LuaScript("analytics", "forget", keys=("user", "days*"), args=("id", "seen"), idempotent=True)
