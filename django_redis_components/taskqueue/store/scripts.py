"""Declarations of the queue's scripts. All keys start with one base key, so that they share a Cluster slot."""

from __future__ import annotations

from collections.abc import Sequence

from django_redis_components.core.scripts import LuaScript
from django_redis_components.taskqueue.fields import LEGEND


def _script(
    name: str, *, keys: Sequence[str] = ("base",), args: Sequence[str] = (), reads_only: bool = False
) -> LuaScript:
    return LuaScript("taskqueue", name, keys=keys, args=args, idempotent=True, reads_only=reads_only, legend=LEGEND)


ENQUEUE = _script(
    "enqueue/enqueue",
    args=("id", "queue", "due", "priority", "unique", "expires", "fields*"),
)
ENQUEUE_PLAIN = _script("enqueue/enqueue_plain", args=("queue", "name", "id", "body", "origin"))
ENQUEUE_PLAIN_MANY = _script("enqueue/enqueue_plain_many", args=("queue", "name", "tasks*"))
ENQUEUE_MANY = _script("enqueue/enqueue_many", args=("tasks*",))
ENQUEUE_ONCE = _script("enqueue/enqueue_once", args=("sender", "tasks*"))
FETCH = _script(
    "fetch/fetch",
    args=(
        *("worker", "thread", "request", "lease_ms", "want", "failed_limit", "finished_limit", "finished_ttl_ms"),
        *("queues", "rest*"),
    ),
)
ENQUEUE_FLOW = _script(
    "flows/enqueue_flow",
    args=("flow_id", "tasks", "last", "ttl_ms", "failed_ttl_ms", "on_error", "result_of", "row", "nodes*"),
)
CONTINUE_FLOW = _script("flows/continue_flow", args=("flow_id",))
ADD_TO_FLOW = _script("flows/add_to_flow", args=("id", "token", "max_tasks", "nodes*"))
STAGE_ADDED = _script("flows/stage_added", args=("id", "token", "tasks*"))
READ_FLOW = _script("flows/read_flow", args=("flow_id", "limit", "first", "last"), reads_only=True)
RENEW_LEASES = _script("fetch/renew_leases", args=("worker", "lease_ms", "info", "supervisor", "executed", "leases*"))
EXPIRE_LEASES = _script("fetch/expire_leases", args=("worker", "queue", "offset", "limit"))
WORKER_LEASES = _script("fetch/worker_leases", args=("worker", "queue", "offset", "limit"), reads_only=True)
MAINTAIN = _script(
    "poller/maintain",
    args=(
        "poller",
        "poller_lease_ms",
        "lease_ms",
        "contact",
        "prune",
        "keep_ms",
        "failed_limit",
        "lost_error",
        "max_deliveries",
        "lost_fingerprint",
        "lost_description",
        "finished_limit",
        "finished_ttl_ms",
        "first",
    ),
)
SAVE_METADATA = _script("fetch/save_metadata", keys=("record",), args=("token", "metadata", "cursor"))
REGISTER_WAITER = _script("fetch/register_waiter", keys=("record",))
REQUEUE_UNREGISTERED = _script(
    "admin/requeue_unregistered",
    args=("queue", "skip", "up_to_ms", "names*"),
)
LIST_TASKS = _script("admin/list_tasks", args=("queue", "state", "offset", "limit"), reads_only=True)
READ_COUNTERS = _script(
    "stats/read_counters", args=("step", "count", "known_first", "known_last", "queues*"), reads_only=True
)
READ_TOTALS = _script("stats/read_totals", args=("first", "queues*"), reads_only=True)
READ_HISTORY = _script("stats/read_history", args=("minutes", "count", "budget"), reads_only=True)
TASK_COUNTERS = _script("stats/task_counters", args=("queue", "count"), reads_only=True)
TASK_CLASS = _script("stats/task_class", args=("name", "first", "limit"), reads_only=True)
CLASS_HOURS = _script("stats/class_hours", args=("name", "count"), reads_only=True)
ERROR_GROUPS = _script(
    "stats/error_groups", args=("limit", "fingerprint", "order", "first", "queues*"), reads_only=True
)
LIST_WORKERS = _script(
    "stats/list_workers",
    args=("after", "supervisor", "limit", "lease_ms", "state", "version", "host"),
    reads_only=True,
)
TASK_LEASES = _script("stats/task_leases", args=("ids*",), reads_only=True)
DUE_COUNTS = _script("stats/due_counts", args=("step_ms", "count", "first"), reads_only=True)
QUEUE_STATS = _script("stats/queue_stats", args=("first", "lease_ms", "queues*"), reads_only=True)
READ_ARRIVALS = _script("stats/read_arrivals", args=("queues*",), reads_only=True)
COUNT_FAILURES = _script("stats/count_failures", args=("lease_ms", "limit"), reads_only=True)
LIST_GROUPS = _script("stats/list_groups", args=("queue", "limit", "budget"), reads_only=True)
EXPLAIN = _script("stats/explain", args=("id", "max_bytes", "errors"), reads_only=True)

PAUSE = _script("admin/pause", args=("queue", "ends_at", "note"))
RESUME = _script("admin/resume", args=("queue", "op"))
PAUSE_GROUP = _script("admin/pause_group", args=("queue", "group", "note"))
RESUME_GROUP = _script("admin/resume_group", args=("queue", "group", "op"))
CANCEL = _script("admin/cancel", args=("id", "ttl_ms", "force_ms", "finished_limit", "finished_ttl_ms"))
RESCHEDULE = _script("admin/reschedule", args=("id", "due", "op"))
UPDATE_TASK = _script(
    "admin/update_task", args=("id", "op", "version", "claim", "target", "priority", "expires", "fields*")
)
RESCHEDULE_TASKS = _script("admin/reschedule_tasks", args=("queue", "until_us", "due", "op", "ids*"))
RENAME_TASKS = _script("admin/rename_tasks", args=("queue", "up_to_ms", "name", "op", "ids*"))
MOVE_TASKS = _script("admin/move_tasks", args=("queue", "until_us", "target", "op", "ids*"))
COUNT_MOVABLE = _script(
    "admin/count_movable", args=("queue", "state", "until_us", "is_target", "ids*"), reads_only=True
)
EXPORT_TASKS = _script("admin/export_tasks", args=("queue", "state", "until_us", "target", "op", "is_target", "ids*"))
IMPORT_TASKS = _script("admin/import_tasks", args=("read_at_ms", "failed_ttl_ms", "tasks*"))
FORGET_TASKS = _script("admin/forget_tasks", args=("tasks*",))
RETURN_TASKS = _script("admin/return_tasks", args=("failed_ttl_ms", "tasks*"))
CANCEL_TASKS = _script(
    "admin/cancel_tasks",
    args=("queue", "until_us", "ttl_ms", "force_ms", "op", "finished_limit", "finished_ttl_ms", "ids*"),
)
RETRY_FAILED = _script(
    "admin/retry_failed",
    args=("queue", "up_to_ms", "limit", "op", "skip", "ids*"),
)
DELETE_TASKS = _script(
    "admin/delete_tasks",
    args=("queue", "state", "up_to_ms", "limit", "op", "trash", "ids*"),
)
PURGE = _script("admin/purge", args=("queue", "op"))
PURGE_UNTIL = _script(
    "admin/purge_until",
    args=("queue", "trash", "until_us", "sequence", "part", "skip", "limit", "op"),
)
COMMAND_WORKER = _script("admin/command_worker", args=("target", "verb", "op", "author", "lease_ms"))
KEEP_POOL = _script("admin/keep_pool", args=("author", "values*"))
SCAN_TASKS = _script(
    "admin/scan_tasks",
    args=(
        *("queue", "state", "cursor", "direction", "limit", "budget", "mode"),
        *("name", "body_part", "error", "fingerprint", "from_ms", "until_ms", "any_text", "any_body"),
        *("version", "host"),
    ),
    reads_only=True,
)
SCAN_FINISHED = _script(
    "admin/scan_finished",
    args=(
        *("queue", "state", "finished_limit", "finished_ttl_ms", "cursor", "direction", "limit", "budget", "mode"),
        *("name", "body_part", "from_ms", "until_ms", "version", "host"),
    ),
    reads_only=True,
)
FIND_SLOWEST = _script(
    "admin/find_slowest",
    args=("queue", "name", "finished_limit", "finished_ttl_ms", "limit", "budget"),
    reads_only=True,
)
FIND_FINISHED = _script("admin/find_finished", args=("id", "queue", "cursor", "budget"), reads_only=True)
RESTORE = _script("admin/restore", args=("queue", "trash", "limit", "op", "finished_limit", "finished_ttl_ms"))
DELETE_TRASH = _script("admin/delete_trash", args=("keep_ms", "limit"))

REGISTER_SCHEDULES = _script("schedules/register_schedules", args=("poller", "keep_ms", "version", "rows*"))
ENQUEUE_DUE = _script(
    "schedules/enqueue_due",
    args=("poller", "name", "due_ms", "next_ms", "count", "rest*"),
)
LIST_SCHEDULES = _script("schedules/list_schedules", args=("part", "after", "limit", "order"), reads_only=True)
READ_CHANGES = _script("schedules/read_changes", reads_only=True)
IMPORT_SCHEDULES = _script("admin/import_schedules", args=("op", "rows*"))
CHANGE_SCHEDULE = _script("admin/change_schedule", args=("verb", "name", "value", "times", "op"))
