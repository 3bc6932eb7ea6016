"""The page of one task as JSON."""

from __future__ import annotations

import dataclasses
from typing import Any

from django_redis_components.core import conf
from django_redis_components.dashboard.arguments import argument_lines
from django_redis_components.dashboard.json_data import cost_data, time_data
from django_redis_components.dashboard.queues.task_list import attempts_of, time_of
from django_redis_components.dashboard.task.page import errors_of, guarded, metadata_of, result_of
from django_redis_components.dashboard.task.reasons import answer
from django_redis_components.dashboard.task.snapshot import TaskSnapshot
from django_redis_components.dashboard.task.timeline import runs_of
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.stats.explain import Explanation, Reason, limit_key, number_of


def task_data(snapshot: TaskSnapshot) -> dict[str, Any]:
    """Return a snapshot, with masked arguments."""
    task = snapshot.task
    return {
        "at": time_data(task.at),
        "environment": conf.settings().dashboard.environment,
        "address": snapshot.address,
        "task": _task(task),
        "answer": answer(task),
        "reasons": reasons_data(task),
        "runs": [
            {
                "outcome": run.outcome,
                "worker": run.worker_id,
                "started_at": time_data(run.started_at),
                "finished_at": time_data(run.finished_at),
            }
            for run in runs_of(task)
        ],
        "errors": [dataclasses.asdict(error) for error in errors_of(task)],
        "limits": _limits(task),
        "flow": _flow(task),
        "cost": cost_data(snapshot.cost),
    }


def reasons_data(task: Explanation) -> list[dict[str, Any]]:
    """Return why the task does not run."""
    return [_reason(reason) for reason in task.reasons]


def _reason(reason: Reason) -> dict[str, Any]:
    return {**dataclasses.asdict(reason), "at": time_data(reason.at)}


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
        **{name: time_data(time_of(record, name)) for name in names},
        "arguments": guarded(lambda: argument_lines(record), None) if Field.body not in task.sizes else None,
        "metadata": metadata_of(task) or None,
        "result": result_of(task) or None,
        "progress": guarded(lambda: dataclasses.asdict(progress), None) if progress else None,
    }


def _limits(task: Explanation) -> dict[str, Any]:
    concurrency, rate = limit_key(task, Field.concurrency), limit_key(task, Field.rate)
    concurrency_facts = {
        "key": concurrency,
        "held": task.fact("holders"),
        "limit": task.fact("max_running"),
        "is_holder": bool(task.fact("is_holder")),
        "holders": [dataclasses.asdict(each) for each in task.holders],
    }
    holder = task.unique_holder
    unique = {"holder": dataclasses.asdict(holder) if holder else None}
    return {
        "concurrency": concurrency_facts if concurrency else None,
        "rate": {"key": rate} if rate else None,
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
        "parents": [dataclasses.asdict(each) for each in task.parents],
        "followers": [dataclasses.asdict(each) for each in task.followers],
    }
