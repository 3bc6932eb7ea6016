"""The overview as JSON."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any

from django_redis_components.core import conf
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.json_data import cost_data, depth_data, metrics_data, time_data
from django_redis_components.dashboard.overview.problems import find_problems, live_workers
from django_redis_components.dashboard.overview.snapshot import DailySignIns, DailyVisitors, OverviewSnapshot
from django_redis_components.taskqueue.schedules.status import ScheduleInfo
from django_redis_components.taskqueue.stats.overview import QueueDepth, TaskQueueOverview, WorkerInfo


def overview_data(snapshot: OverviewSnapshot) -> dict[str, Any]:
    """Return a snapshot. A part that could not be read is null and listed in ``errors``."""
    return {
        "at": time_data(snapshot.at),
        "environment": conf.settings().dashboard.environment,
        "address": snapshot.address,
        "problems": [dataclasses.asdict(problem) for problem in find_problems(snapshot)],
        **_task_queue(snapshot.queues),
        "schedules": [_schedule(each) for each in snapshot.schedules.schedules] if snapshot.schedules else None,
        "visitors": _visitors(snapshot.visitors) if snapshot.visitors else None,
        "sign_ins": _sign_ins(snapshot.sign_ins) if snapshot.sign_ins else None,
        "days_time_zone": formats.days_zone(),
        "errors": {name: str(error) for name, error in snapshot.errors.items()},
        "cost": cost_data(snapshot.cost),
    }


def _task_queue(overview: TaskQueueOverview | None) -> dict[str, Any]:
    if overview is None:
        return dict.fromkeys(("queues", "workers", "poller", "eviction_policy"))
    return {
        "queues": [_queue(queue, overview) for queue in overview.queues],
        "workers": [_worker(worker) for worker in overview.workers],
        "poller": overview.poller,
        "eviction_policy": overview.eviction_policy,
    }


def _queue(queue: QueueDepth, overview: TaskQueueOverview) -> dict[str, Any]:
    return {
        **depth_data(queue),
        "live_workers": live_workers(queue.name, overview),
        "last_hour": metrics_data(overview.metrics[queue.name]) if queue.name in overview.metrics else None,
    }


def _worker(worker: WorkerInfo) -> dict[str, Any]:
    return {
        "id": worker.id,
        "alive": worker.is_alive,
        "heartbeat_age": worker.heartbeat_age,
        "host": worker.host,
        "pid": worker.pid,
        "queues": list(worker.queues),
        "threads": worker.threads,
        "busy": worker.busy,
        "finished": worker.finished,
        "started_at": time_data(worker.started_at),
    }


def _schedule(schedule: ScheduleInfo) -> dict[str, Any]:
    return {
        name: time_data(value) if isinstance(value, datetime) else value
        for name, value in dataclasses.asdict(schedule).items()
    }


def _visitors(visitors: DailyVisitors) -> dict[str, Any]:
    return {
        "name": visitors.name,
        "today": int(list(visitors.days.values())[-1]),
        "range_days": len(visitors.days),
        "range": int(visitors.range),
        "exact_range": visitors.range.exact_range,
        "standard_error": visitors.range.error,
        "days": {day.isoformat(): int(count) for day, count in visitors.days.items()},
    }


def _sign_ins(sign_ins: DailySignIns) -> dict[str, Any]:
    return {
        "name": sign_ins.name,
        "today": list(sign_ins.days.values())[-1],
        "days": {day.isoformat(): count for day, count in sign_ins.days.items()},
    }
