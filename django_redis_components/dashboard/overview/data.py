"""The overview as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django_redis_components.analytics import SignIns, UniqueVisitors
from django_redis_components.core import conf
from django_redis_components.core.exception_text import safe_text
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.json_data import cost_data, depth_data, metrics_data, time_data
from django_redis_components.dashboard.overview.history import history_data
from django_redis_components.dashboard.overview.problems import find_problems
from django_redis_components.dashboard.overview.snapshot import OverviewSnapshot
from django_redis_components.dashboard.panels.analytics import sign_ins_counter, visitors_counter
from django_redis_components.dashboard.panels.page import panel_data
from django_redis_components.taskqueue.schedules.status import ScheduleInfo
from django_redis_components.taskqueue.stats.queue_stats import QueueDepth, TaskQueueOverview
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo


def overview_data(snapshot: OverviewSnapshot) -> dict[str, Any]:
    """Return a snapshot. A part that could not be read is null and listed in ``errors``."""
    panels = panel_data(snapshot.panels)
    return {
        "at": time_data(snapshot.at),
        "environment": conf.settings().dashboard.environment,
        "address": snapshot.address,
        "problems": [dataclasses.asdict(problem) for problem in find_problems(snapshot)],
        **_task_queue(snapshot.queues),
        "history": history_data(snapshot.history) if snapshot.history else None,
        "schedules": [_schedule(each) for each in snapshot.schedules.schedules] if snapshot.schedules else None,
        "visitors": _today(snapshot.visitors, visitors_counter),
        "sign_ins": _today(snapshot.sign_ins, sign_ins_counter),
        "days_time_zone": formats.days_zone(),
        "panels": panels["panels"],
        "errors": {name: safe_text(error) for name, error in snapshot.errors.items()} | panels["errors"],
        "cost": cost_data(snapshot.cost),
    }


def _today(count: int | None, counter: Callable[[], UniqueVisitors | SignIns]) -> dict[str, Any] | None:
    return None if count is None else {"name": counter().name, "today": int(count)}


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
        "live_workers": queue.live_workers,
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
