"""The page of a task class as JSON."""

from __future__ import annotations

from typing import Any

from django_redis_components.dashboard.json_data import fields_of
from django_redis_components.dashboard.queues.data import task_data
from django_redis_components.dashboard.snapshot import Snapshot
from django_redis_components.dashboard.task_class.options import option_lines
from django_redis_components.dashboard.task_class.snapshot import TaskClassSnapshot, slowest_tasks
from django_redis_components.taskqueue import Histogram
from django_redis_components.taskqueue.stats.task_class import RunCounts


def task_class_data(read: Snapshot[TaskClassSnapshot]) -> dict[str, Any]:
    """Return a snapshot. Durations are in seconds."""
    snapshot = read.value
    task, history = snapshot.task, snapshot.history
    return {
        "name": task.name,
        "range": snapshot.range,
        **_counts(snapshot.counts),
        "queues": [{"queue": queue, **_counts(counts)} for queue, counts in task.by_queue],
        "more_queues": task.more_queues,
        "uncounted_queues": task.uncounted_queues,
        "deploys": [
            {"version": deploy and deploy.version, "at": deploy and deploy.at, **_counts(counts)}
            for deploy, counts in snapshot.by_deploy
        ],
        "minutes": [
            {"at": each.at, "succeeded": each.counts.succeeded, "failed": each.counts.failed}
            for each in task.intervals
            if each.counts.finished
        ],
        "hours": [
            {
                "at": each.at,
                "succeeded": each.counts.succeeded,
                "failed": each.counts.failed,
                "wait_time": _quantiles(each.wait_time),
                "run_time": _quantiles(each.run_time),
            }
            for each in (history.intervals if history else ())
            if each.counts.finished
        ],
        "missing": history and history.missing,
        "failed_tasks": [task_data(each) for part in snapshot.failed for each in part.tasks],
        "slowest_runs": {
            "scanned": sum(part.scanned for part in snapshot.slowest),
            "matched": sum(part.matched for part in snapshot.slowest),
            "tasks": [task_data(each) for each in slowest_tasks(snapshot)],
        },
        "options": option_lines(task.name),
        "schedules": [each.name for each in snapshot.schedules],
    }


def _counts(counts: RunCounts) -> dict[str, Any]:
    return {
        **fields_of(counts.totals),
        "wait_time": _quantiles(counts.wait_time),
        "run_time": _quantiles(counts.run_time),
    }


def _quantiles(histogram: Histogram) -> dict[str, float | None]:
    return {"p50": histogram.p50, "p95": histogram.p95, "p99": histogram.p99}
