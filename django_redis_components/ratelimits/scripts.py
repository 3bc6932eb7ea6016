"""The scripts of this room; what each does, and its keys, stand at the head of its file in ``lua/``."""

from __future__ import annotations

from django_redis_components.core.scripts import LuaScript

#: Count a hit, or only look. A repetition is known by its id.
GCRA = LuaScript(
    "ratelimits",
    "gcra",
    keys=("penalty", "rates*"),
    args=("id", "denials", "block_us", "numbers*"),
    idempotent=True,
)
SLIDING = LuaScript(
    "ratelimits",
    "sliding",
    keys=("penalty", "logs*"),
    args=("id", "denials", "block_us", "cost", "numbers*"),
    idempotent=True,
)
FIXED = LuaScript(
    "ratelimits",
    "fixed",
    keys=("penalty", "rates*"),
    args=("id", "denials", "block_us", "cost", "numbers*"),
    idempotent=True,
)
#: Give back. Sent once: a second one would give back again.
REFUND_GCRA = LuaScript("ratelimits", "refund_gcra", keys=("rates*",), args=("numbers*",))
REFUND_SLIDING = LuaScript("ratelimits", "refund_sliding", keys=("logs*",), args=("cost",))
REFUND_FIXED = LuaScript("ratelimits", "refund_fixed", keys=("rates*",), args=("cost", "numbers*"))
