"""The scripts of analytics. The keys of one call share the hash tag of the counter's name."""

from __future__ import annotations

from django_redis_components.core.scripts import LuaScript

HIT = LuaScript("analytics", "hit", keys=("periods*",), args=("page", "limits*"))
ADD_VIEWS = LuaScript(
    "analytics",
    "add_views",
    keys=("last", "counters*"),
    args=("number", "last_ms", "parts*"),
    idempotent=True,
)
VISIT = LuaScript("analytics", "visit", keys=("periods*",), args=("parts*",), idempotent=True)
VISIT_PAGES = LuaScript(
    "analytics",
    "visit_pages",
    keys=("pages",),
    args=("base", "max_pages", "pages_ms", "ttl_ms", "other", "labels", "parts*"),
    idempotent=True,
)
MERGE = LuaScript("analytics", "merge", keys=("scratch", "days*"), idempotent=True)
UNION = LuaScript("analytics", "union", keys=("scratch", "part"), args=("sketches*",), idempotent=True)
SIGN_IN = LuaScript(
    "analytics",
    "sign_in",
    keys=("base", "user", "day", "last_call", "audit"),
    args=("id", "is_mapped", "max_number", "offset", "token", "repeat_ms", "entry"),
    idempotent=True,
)
UNDO_SIGN_IN = LuaScript(
    "analytics",
    "undo_sign_in",
    keys=("base", "user", "day", "last_call", "audit"),
    args=("id", "is_mapped", "offset", "token", "repeat_ms", "entry"),
    idempotent=True,
)
FORGET = LuaScript(
    "analytics", "forget", keys=("base", "user", "audit"), args=("id", "is_mapped", "seen", "days*"), idempotent=True
)
ROLL_UP_RETENTION = LuaScript(
    "analytics", "roll_up_retention", keys=("base",), args=("offset", "ttl_ms", "days*"), idempotent=True
)
MARK = LuaScript(
    "analytics",
    "mark",
    keys=("base",),
    args=("event", "id", "is_mapped", "max_number", "ttl_ms", "bitmaps*"),
    idempotent=True,
)
UNMARK = LuaScript("analytics", "unmark", keys=("base",), args=("id", "is_mapped", "bitmaps*"), idempotent=True)
EVALUATE = LuaScript("analytics", "evaluate", keys=("base",), args=("program*",), idempotent=True)
SET_SCORE = LuaScript(
    "analytics", "score", keys=("base",), args=("member", "score", "mode", "ttl_ms", "periods*"), idempotent=True
)
#: The same script; adding to a score may not be repeated after a lost reply.
ADD_SCORE = LuaScript(
    "analytics", "score", keys=("base",), args=("member", "score", "mode", "ttl_ms", "periods*"), idempotent=False
)
#: Reads for pages: one command for each, however long the range is.
MOST_VIEWED = LuaScript(
    "analytics", "most_viewed", keys=("periods*",), args=("current", "limit", "sample", "names*"), reads_only=True
)
COUNT_USERS = LuaScript("analytics", "count_users", keys=("days*",), reads_only=True)
STORED_UNITS = LuaScript("analytics", "stored_units", keys=("indexes*",), reads_only=True)
COUNT_FUNNEL = LuaScript("analytics", "count_funnel", keys=("bitmaps*",), args=("max_bytes", "sizes*"), reads_only=True)
