"""The page of one queue as JSON."""

from __future__ import annotations

from typing import Any

from django_redis_components.dashboard.arguments import arguments_text
from django_redis_components.dashboard.error_text import masked_error
from django_redis_components.dashboard.json_data import fields_of, metrics_data, quantiles_data
from django_redis_components.dashboard.queues.listing import time_of
from django_redis_components.dashboard.queues.snapshot import QueueSnapshot
from django_redis_components.dashboard.queues.task_list import attempts_of, count_of, workers_of
from django_redis_components.dashboard.snapshot import Snapshot
from django_redis_components.taskqueue import ErrorGroup
from django_redis_components.taskqueue.store.scan import MAX_MESSAGE, ScannedTask


def queue_data(read: Snapshot[QueueSnapshot]) -> dict[str, Any]:
    """Return a snapshot."""
    snapshot = read.value
    last_hour, last_day = metrics_data(snapshot.minutes), metrics_data(snapshot.hours)
    return {
        "queue": {**fields_of(snapshot.total), "last_hour": last_hour, "last_day": last_day},
        "tasks": [
            {"name": task.name or None, **fields_of(task.totals), **quantiles_data(task)}
            for task in snapshot.minutes.tasks
        ],
        "failures": [
            {
                **fields_of(group),
                "message": masked_error(group.message),
                "minutes": [{"at": at, "count": count} for at, count in group.minutes],
                "sample": _sample_data(group),
            }
            for group in snapshot.errors
        ],
        "listing": _listing_data(snapshot),
        "trash": snapshot.trash,
        "groups": snapshot.groups,
        "finished": snapshot.finished,
    }


def task_data(task: ScannedTask) -> dict[str, Any]:
    """Return a task in a list, with masked arguments."""
    record = task.record
    return {
        "id": record.id,
        "name": record.name,
        "arguments": arguments_text(record) if task.size <= MAX_MESSAGE else None,
        "arguments_bytes": task.size,
        "are_arguments_clipped": task.is_clipped,
        "duration_s": task.duration,
        "worker_ids": workers_of(record),
        "version": task.version or None,
        "attempts": attempts_of(record),
        **{name: time_of(record, name) for name in ("enqueued_at", "run_after", "last_attempted_at", "finished_at")},
        "error": {"class": task.error_class, "message": masked_error(task.error_text)} if task.error_class else None,
    }


def _listing_data(snapshot: QueueSnapshot) -> dict[str, Any] | None:
    """Return the list of tasks, with masked arguments."""
    listing, query = snapshot.listing, snapshot.query
    if listing is None:
        return None
    return {
        "state": query.state,
        "filters": {name: getattr(query, name) for name in ("name", "error", "text", "version", "host")},
        "total": listing.total,
        "start": listing.start,
        "scanned": listing.scanned,
        "count": count_of(listing).data(),
        "older": listing.last if listing.has_more else None,
        "newer": listing.first or None,
        "tasks": [
            {**task_data(task), **({"shard": shard.name} if listing.is_merged else {})} for shard, task in listing.rows
        ],
    }


def _sample_data(group: ErrorGroup) -> dict[str, Any] | None:
    sample = group.sample
    if sample is None:
        return None
    return {"id": sample.task_id, "name": sample.task_name, "message": masked_error(sample.message)}
