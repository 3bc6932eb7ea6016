"""The queue's scripts. All keys are derived from one base, so that they share a Cluster slot."""

from __future__ import annotations

from django_redis_components.core import keys
from django_redis_components.core.scripts import LuaScript

#: Hash tag of a connection's queues. Strict order holds within a tag.
TAG = "default"

ENQUEUE = LuaScript(
    "taskqueue",
    "enqueue",
    keys=("base",),
    args=("id", "queue", "due", "priority", "unique", "expires", "fields*"),
    idempotent=True,
)
ENQUEUE_PLAIN = LuaScript(
    "taskqueue", "enqueue_plain", keys=("base",), args=("queue", "name", "tasks*"), idempotent=True
)
ENQUEUE_MANY = LuaScript("taskqueue", "enqueue_many", keys=("base",), args=("tasks*",), idempotent=True)
FETCH = LuaScript(
    "taskqueue",
    "fetch",
    keys=("base",),
    args=("worker", "lane", "request", "lease_ms", "want", "failed_limit", "queues", "rest*"),
    idempotent=True,
)
PLANT = LuaScript(
    "taskqueue",
    "plant",
    keys=("base",),
    args=("flow", "tasks", "last", "ttl_ms", "keep_ms", "rescue", "ends", "nodes*"),
    idempotent=True,
)
RENEW = LuaScript("taskqueue", "renew", keys=("base",), args=("worker", "lease_ms", "info", "leases*"), idempotent=True)
HELD = LuaScript("taskqueue", "held", keys=("base",), args=("worker", "queue", "offset", "limit"), idempotent=True)
TEND = LuaScript(
    "taskqueue",
    "tend",
    keys=("base",),
    args=(
        "poller", "hold_ms", "lease_ms", "contact", "prune", "keep_ms", "failed_limit", "lost_error", "max_deliveries",
        "lost_note", "first",
    ),
    idempotent=True,
)  # fmt: skip
NOTE = LuaScript("taskqueue", "note", keys=("base",), args=("id", "token", "text"), idempotent=True)
WATCH = LuaScript("taskqueue", "watch", keys=("base",), args=("id",), idempotent=True)
UNPARK = LuaScript("taskqueue", "unpark", keys=("base",), args=("queue", "skip", "up_to_ms", "names*"), idempotent=True)
PAGE = LuaScript("taskqueue", "page", keys=("base",), args=("queue", "state", "offset", "limit"), idempotent=True)
MEASURE = LuaScript("taskqueue", "measure", keys=("base",), args=("step", "count", "whole", "queues*"), idempotent=True)
BREAKDOWN = LuaScript("taskqueue", "breakdown", keys=("base",), args=("queue", "count"), idempotent=True)
ERRORS = LuaScript("taskqueue", "errors", keys=("base",), args=("queue", "limit"), idempotent=True)
SURVEY = LuaScript("taskqueue", "survey", keys=("base",), args=("known", "queues*"), idempotent=True)

PAUSE = LuaScript("taskqueue", "pause", keys=("base",), args=("queue", "ends", "note"), idempotent=True)
RESUME = LuaScript("taskqueue", "resume", keys=("base",), args=("queue", "op"), idempotent=True)
CANCEL = LuaScript("taskqueue", "cancel", keys=("base",), args=("id", "ttl_ms", "force_ms"), idempotent=True)
MOVE = LuaScript("taskqueue", "move", keys=("base",), args=("id", "due", "op"), idempotent=True)
REQUEUE = LuaScript(
    "taskqueue", "requeue", keys=("base",), args=("queue", "up_to_ms", "limit", "op", "skip", "ids*"), idempotent=True
)
DISCARD = LuaScript(
    "taskqueue", "discard", keys=("base",), args=("queue", "shelf", "up_to_ms", "limit", "op", "ids*"), idempotent=True
)
PURGE = LuaScript("taskqueue", "purge", keys=("base",), args=("queue", "op"), idempotent=True)
UNPURGE = LuaScript("taskqueue", "unpurge", keys=("base",), args=("queue", "bin", "limit", "op"), idempotent=True)
EMPTY_BINS = LuaScript("taskqueue", "empty_bins", keys=("base",), args=("keep_ms", "limit"), idempotent=True)

ANNOUNCE = LuaScript("taskqueue", "announce", keys=("base",), args=("poller", "keep_ms", "rows*"), idempotent=True)
FIRE = LuaScript(
    "taskqueue", "fire", keys=("base",), args=("poller", "name", "slot_ms", "next_ms", "rest*"), idempotent=True
)
SCHEDULES = LuaScript("taskqueue", "schedules", keys=("base",), args=("limit",), idempotent=True)


def base_key() -> str:
    """The common prefix of all keys of the queue."""
    return keys.key("taskqueue", TAG)


def record_key(task_id: str) -> str:
    """The hash of one task."""
    return f"{base_key()}:t:{task_id}"


def flow_key(flow_id: str) -> str:
    """The hash of one flow."""
    return f"{base_key()}:flow:{flow_id}"
