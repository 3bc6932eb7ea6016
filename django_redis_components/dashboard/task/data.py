"""The page of one task as JSON."""

from __future__ import annotations

from typing import Any

from django_redis_components.dashboard.arguments import argument_lines
from django_redis_components.dashboard.json_data import fields_of
from django_redis_components.dashboard.queues.listing import time_of
from django_redis_components.dashboard.queues.task_list import attempts_of
from django_redis_components.dashboard.snapshot import Snapshot
from django_redis_components.dashboard.task.page import cursor_text, errors_of, guarded, metadata_of, result_of
from django_redis_components.dashboard.task.reasons import answer
from django_redis_components.dashboard.task.timeline import host_of, runs_of
from django_redis_components.dashboard.task.usual import is_hanging
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.stats.explain import Explanation, limit_key, number_of


def task_data(snapshot: Snapshot[Explanation]) -> dict[str, Any]:
    """Return a snapshot, with masked arguments."""
    task = snapshot.value
    return {
        "task": _task(task),
        "answer": answer(task),
        "reasons": [fields_of(reason) for reason in task.reasons],
        "runs": [
            {
                "outcome": run.outcome,
                "worker": run.worker_id,
                "host": host_of(run.worker_id),
                "version": task.versions.get(run.worker_id, ""),
                "started_at": run.started_at,
                "finished_at": run.finished_at,
            }
            for run in runs_of(task)
        ],
        "errors": errors_of(task),
        "limits": _limits(task),
        "flow": _flow(task),
    }


def _task(task: Explanation) -> dict[str, Any]:
    record = task.record
    progress = guarded(lambda: record.progress, None)
    names = ("enqueued_at", "run_after", "started_at", "finished_at", "expires_at")
    return {
        "id": record.id,
        "name": record.name,
        "queue": task.queue,
        "state": task.state,
        "priority": number_of(task.text(Field.priority)),
        "attempts": attempts_of(record),
        **{name: time_of(record, name) for name in names},
        "arguments": guarded(lambda: argument_lines(record), None) if Field.body not in task.sizes else None,
        "enqueued_by": record.origin._asdict() if record.origin else None,
        "run_time": {name: getattr(task.run_time, name) for name in ("count", "p50", "p95", "p99")},
        "is_overlong": is_hanging(task),
        "metadata": metadata_of(task) or None,
        "result": result_of(task) or None,
        "progress": progress,
        "batch_size": number_of(task.text(Field.batch_calls)) or None,
        "continues_after": cursor_text(task) or None,
    }


def _limits(task: Explanation) -> dict[str, Any]:
    concurrency, rate = limit_key(task, Field.concurrency), limit_key(task, Field.rate)
    concurrency_facts = {
        "key": concurrency,
        "held": task.fact("holders"),
        "limit": task.fact("max_running"),
        "is_holder": bool(task.fact("is_holder")),
        "holders": task.holders,
    }
    holder = task.unique_holder
    unique = {"holder": holder}
    return {
        "concurrency": concurrency_facts if concurrency else None,
        "rate": {"key": rate} if rate else None,
        "group": task.group or None,
        "unique": unique if task.text(Field.unique_claim) else None,
    }


def _flow(task: Explanation) -> dict[str, Any] | None:
    flow_id = task.text(Field.flow_ref).rpartition("/")[0]
    if not flow_id:
        return None
    return {
        "id": flow_id,
        "tasks": task.fact("flow_tasks"),
        "unfinished": task.fact("flow_unfinished"),
        "on_failure": task.text(Field.on_failure) or "cancel",
        "parents": task.parents,
        "followers": task.followers,
    }
