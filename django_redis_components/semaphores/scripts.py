"""The script of semaphores that other kinds do not have. The header of its file documents its keys and arguments."""

from __future__ import annotations

from django_redis_components.core.scripts import LuaScript

#: Set the limit for all objects.
SET_LIMIT = LuaScript(
    "semaphores",
    "set_limit",
    kind="semaphores/permits",
    keys=("base", "queue"),
    args=("number", "handoff_ms"),
    idempotent=True,
)
