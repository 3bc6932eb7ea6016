"""The overview as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_redis_components.analytics import SignIns, UniqueVisitors
from django_redis_components.core.exception_text import safe_text
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.json_data import queue_data
from django_redis_components.dashboard.overview.history import history_data
from django_redis_components.dashboard.overview.problems import page_problems, problem_data
from django_redis_components.dashboard.overview.snapshot import OverviewSnapshot
from django_redis_components.dashboard.panels.analytics import sign_ins_counter, visitors_counter
from django_redis_components.dashboard.panels.page import panel_data
from django_redis_components.taskqueue.stats.queue_stats import TaskQueueOverview
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo

#: Fields of a worker.
_OF_WORKERS = ("id", "heartbeat_age", "host", "pid", "queues", "threads", "busy", "finished", "started_at")


def overview_data(snapshot: OverviewSnapshot) -> dict[str, Any]:
    """Return a snapshot. A part that could not be read is null and listed in ``errors``."""
    panels = panel_data(snapshot.panels)
    errors = snapshot.facts.errors | snapshot.errors
    return {
        "problems": [problem_data(each.problem, snapshot.facts) for each in page_problems(snapshot)],
        **_task_queue(snapshot.queues),
        "history": history_data(snapshot.history) if snapshot.history else None,
        "deploys": snapshot.deploys,
        "schedules": snapshot.schedules.schedules if snapshot.schedules else None,
        "visitors": _today(snapshot.visitors, visitors_counter),
        "sign_ins": _today(snapshot.sign_ins, sign_ins_counter),
        "days_time_zone": formats.days_zone(),
        "panels": panels["panels"],
        "errors": {name: safe_text(error) for name, error in errors.items()} | panels["errors"],
    }


def _today(count: int | None, counter: Callable[[], UniqueVisitors | SignIns]) -> dict[str, Any] | None:
    return None if count is None else {"name": counter().name, "today": int(count)}


def _task_queue(overview: TaskQueueOverview | None) -> dict[str, Any]:
    if overview is None:
        return dict.fromkeys(("queues", "workers", "poller", "eviction_policy"))
    return {
        "queues": [queue_data(queue, overview) for queue in overview.queues],
        "workers": [_worker(worker) for worker in overview.workers],
        "poller": overview.poller,
        "eviction_policy": overview.eviction_policy,
    }


def _worker(worker: WorkerInfo) -> dict[str, Any]:
    """Return what the overview shows of a worker; its page has all of it."""
    return {"alive": worker.is_alive, **{name: getattr(worker, name) for name in _OF_WORKERS}}
