"""The scripts of rate limits. The header of each file in ``lua/`` documents its keys, arguments and replies."""

from __future__ import annotations

from django_redis_components.core.scripts import LuaScript

#: Count a hit, or only read with an empty id. The script recognizes a repeated hit by its id.
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
#: Block a key, or end its block. A repeated request replaces the block of the first.
BLOCK = LuaScript("ratelimits", "block", keys=("penalty", "rates*"), args=("blocked_us", "author"), idempotent=True)
BLOCK_SLIDING = LuaScript(
    "ratelimits",
    "block_sliding",
    keys=("penalty", "logs*"),
    args=("blocked_us", "author", "numbers*"),
    idempotent=True,
)
#: Refund. Not idempotent: sent once, because a repetition would refund twice.
REFUND_GCRA = LuaScript("ratelimits", "refund_gcra", keys=("rates*",), args=("numbers*",))
REFUND_SLIDING = LuaScript("ratelimits", "refund_sliding", keys=("logs*",), args=("cost",))
REFUND_FIXED = LuaScript("ratelimits", "refund_fixed", keys=("rates*",), args=("cost", "numbers*"))
