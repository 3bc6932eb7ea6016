"""The scripts of autocomplete. All are idempotent: they read, or write by value or by the token of a rebuild."""

from __future__ import annotations

from django_redis_components.core.scripts import LuaScript

#: The keys of an index and of its rebuild, as named in the scripts.
INDEX = ("lex", "top", "entries")
BUILD = ("build", "build_lex", "build_top", "build_entries", "build_live")

ADD = LuaScript("autocomplete", "add", keys=(*INDEX, *BUILD), args=("id", "record"), idempotent=True)
REMOVE = LuaScript("autocomplete", "remove", keys=(*INDEX, *BUILD), args=("id",), idempotent=True)

CHECK_ENTRIES = LuaScript("autocomplete", "check_entries", keys=INDEX, args=("ids*",), reads_only=True)
FIND_ORPHANS = LuaScript(
    "autocomplete",
    "find_orphans",
    keys=("members", "entries"),
    args=("cursor", "count", "remove"),
    idempotent=True,
)

REBUILD_BEGIN = LuaScript(
    "autocomplete", "rebuild_begin", keys=("build", "rest*"), args=("token", "ttl_ms"), idempotent=True
)
REBUILD_LOAD = LuaScript(
    "autocomplete", "rebuild_load", keys=BUILD, args=("token", "ttl_ms", "pairs*"), idempotent=True
)
REBUILD_SWAP = LuaScript(
    "autocomplete",
    "rebuild_swap",
    keys=("build", "built", "build_live", *INDEX, "build_lex", "build_top", "build_entries"),
    args=("token",),
    idempotent=True,
)
REBUILD_ABANDON = LuaScript(
    "autocomplete", "rebuild_abandon", keys=("build", "rest*"), args=("token",), idempotent=True
)

MATCH_RECENTS = LuaScript(
    "autocomplete", "match_recents", keys=("entries", "lists*"), args=("prefix", "limit", "ids*"), reads_only=True
)
MATCH_WORDS = LuaScript(
    "autocomplete", "match_words", keys=("lex", "entries"), args=("limit", "max_scan", "words*"), reads_only=True
)
FIND_VARIANTS = LuaScript(
    "autocomplete", "find_variants", keys=("lex",), args=("limit", "max_lookups", "characters*"), reads_only=True
)

CHANGE_SCOPES = LuaScript(
    "autocomplete", "change_scopes", keys=("scopes", "all_scopes"), args=("changes*",), idempotent=True
)

RECENT_TOUCH = LuaScript(
    "autocomplete", "recent_touch", keys=("recents",), args=("id", "text", "limit", "ttl_ms"), idempotent=True
)
RECENT_REMOVE = LuaScript("autocomplete", "recent_remove", keys=("recents",), args=("id",), idempotent=True)
