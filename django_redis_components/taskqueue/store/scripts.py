"""The queue's scripts. All keys are derived from one base, so that they share a Cluster slot."""

from __future__ import annotations

from django_redis_components.core import keys
from django_redis_components.core.scripts import LuaScript

#: Hash tag of a connection's queues. Strict order holds within a tag.
TAG = "default"

ENQUEUE = LuaScript(
    "taskqueue",
    "enqueue/enqueue",
    keys=("base",),
    args=("id", "queue", "due", "priority", "unique", "expires", "fields*"),
    idempotent=True,
)
ENQUEUE_PLAIN = LuaScript(
    "taskqueue", "enqueue/enqueue_plain", keys=("base",), args=("queue", "name", "tasks*"), idempotent=True
)
ENQUEUE_MANY = LuaScript("taskqueue", "enqueue/enqueue_many", keys=("base",), args=("tasks*",), idempotent=True)
FETCH = LuaScript(
    "taskqueue",
    "fetch/fetch",
    keys=("base",),
    args=("worker", "lane", "request", "lease_ms", "want", "failed_limit", "queues", "rest*"),
    idempotent=True,
)
ENQUEUE_FLOW = LuaScript(
    "taskqueue",
    "flows/enqueue_flow",
    keys=("base",),
    args=("flow", "tasks", "last", "ttl_ms", "keep_ms", "rescue", "ends", "nodes*"),
    idempotent=True,
)
RENEW_LEASES = LuaScript(
    "taskqueue", "fetch/renew_leases", keys=("base",), args=("worker", "lease_ms", "info", "leases*"), idempotent=True
)
WORKER_LEASES = LuaScript(
    "taskqueue", "fetch/worker_leases", keys=("base",), args=("worker", "queue", "offset", "limit"), idempotent=True
)
MAINTAIN = LuaScript(
    "taskqueue",
    "poller/maintain",
    keys=("base",),
    args=(
        "poller", "hold_ms", "lease_ms", "contact", "prune", "keep_ms", "failed_limit", "lost_error", "max_deliveries",
        "lost_note", "first",
    ),
    idempotent=True,
)  # fmt: skip
SAVE_METADATA = LuaScript(
    "taskqueue", "fetch/save_metadata", keys=("base",), args=("id", "token", "text"), idempotent=True
)
REGISTER_WAITER = LuaScript("taskqueue", "fetch/register_waiter", keys=("base",), args=("id",), idempotent=True)
REQUEUE_UNREGISTERED = LuaScript(
    "taskqueue",
    "admin/requeue_unregistered",
    keys=("base",),
    args=("queue", "skip", "up_to_ms", "names*"),
    idempotent=True,
)
LIST_TASKS = LuaScript(
    "taskqueue", "admin/list_tasks", keys=("base",), args=("queue", "state", "offset", "limit"), idempotent=True
)
READ_COUNTERS = LuaScript(
    "taskqueue", "stats/read_counters", keys=("base",), args=("step", "count", "whole", "queues*"), idempotent=True
)
TASK_COUNTERS = LuaScript("taskqueue", "stats/task_counters", keys=("base",), args=("queue", "count"), idempotent=True)
ERROR_GROUPS = LuaScript("taskqueue", "stats/error_groups", keys=("base",), args=("queue", "limit"), idempotent=True)
QUEUE_STATS = LuaScript("taskqueue", "stats/queue_stats", keys=("base",), args=("known", "queues*"), idempotent=True)

PAUSE = LuaScript("taskqueue", "admin/pause", keys=("base",), args=("queue", "ends", "note"), idempotent=True)
RESUME = LuaScript("taskqueue", "admin/resume", keys=("base",), args=("queue", "op"), idempotent=True)
CANCEL = LuaScript("taskqueue", "admin/cancel", keys=("base",), args=("id", "ttl_ms", "force_ms"), idempotent=True)
RESCHEDULE = LuaScript("taskqueue", "admin/reschedule", keys=("base",), args=("id", "due", "op"), idempotent=True)
RETRY_FAILED = LuaScript(
    "taskqueue",
    "admin/retry_failed",
    keys=("base",),
    args=("queue", "up_to_ms", "limit", "op", "skip", "ids*"),
    idempotent=True,
)
DELETE_TASKS = LuaScript(
    "taskqueue",
    "admin/delete_tasks",
    keys=("base",),
    args=("queue", "shelf", "up_to_ms", "limit", "op", "ids*"),
    idempotent=True,
)
PURGE = LuaScript("taskqueue", "admin/purge", keys=("base",), args=("queue", "op"), idempotent=True)
RESTORE = LuaScript("taskqueue", "admin/restore", keys=("base",), args=("queue", "bin", "limit", "op"), idempotent=True)
DELETE_TRASH = LuaScript("taskqueue", "admin/delete_trash", keys=("base",), args=("keep_ms", "limit"), idempotent=True)

REGISTER_SCHEDULES = LuaScript(
    "taskqueue", "schedules/register_schedules", keys=("base",), args=("poller", "keep_ms", "rows*"), idempotent=True
)
ENQUEUE_SLOT = LuaScript(
    "taskqueue",
    "schedules/enqueue_slot",
    keys=("base",),
    args=("poller", "name", "slot_ms", "next_ms", "rest*"),
    idempotent=True,
)
LIST_SCHEDULES = LuaScript("taskqueue", "schedules/list_schedules", keys=("base",), args=("limit",), idempotent=True)


def base_key() -> str:
    """The common prefix of all keys of the queue."""
    return keys.key("taskqueue", TAG)


def record_key(task_id: str) -> str:
    """The hash of one task."""
    return f"{base_key()}:t:{task_id}"


def flow_key(flow_id: str) -> str:
    """The hash of one flow."""
    return f"{base_key()}:flow:{flow_id}"
