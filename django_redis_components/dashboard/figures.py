"""The snapshot as JSON: the same figures as on the page, for programs."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

from django_redis_components.core import conf
from django_redis_components.dashboard import wording
from django_redis_components.dashboard.counting import Cost
from django_redis_components.dashboard.health import is_alive, problems, serving
from django_redis_components.dashboard.outages import Outage
from django_redis_components.dashboard.queue_reading import QueueSnapshot
from django_redis_components.dashboard.reading import SignInDays, Snapshot, Visitors
from django_redis_components.taskqueue import Metrics, TaskMetrics
from django_redis_components.taskqueue.schedules.status import ScheduleInfo
from django_redis_components.taskqueue.stats.overview import Overview, Pause, QueueDepth, WorkerInfo


def figures(snapshot: Snapshot) -> dict[str, Any]:
    """All figures of a snapshot. What could not be read is null, and named in ``errors``."""
    return {
        "at": time_figure(snapshot.at),
        "environment": conf.settings().dashboard.environment,
        "address": snapshot.address,
        "problems": [
            {"code": problem.code, "text": problem.text, "advice": problem.advice, "command": problem.command}
            for problem in problems(snapshot)
        ],
        **_queue_figures(snapshot.queues),
        "schedules": [_schedule(each) for each in snapshot.schedules.schedules] if snapshot.schedules else None,
        "visitors": _visitors(snapshot.visitors) if snapshot.visitors else None,
        "sign_ins": _sign_ins(snapshot.sign_ins) if snapshot.sign_ins else None,
        "days_time_zone": wording.days_zone(),
        "errors": {name: str(error) for name, error in snapshot.errors.items()},
        "cost": cost_figures(snapshot.cost),
    }


def outage_figures(outage: Outage) -> dict[str, Any]:
    """An outage for programs."""
    return {
        "error": {
            "code": outage.code,
            "title": outage.title,
            "advice": outage.advice,
            "address": outage.address,
            "detail": outage.detail,
        }
    }


def _queue_figures(overview: Overview | None) -> dict[str, Any]:
    if overview is None:
        return dict.fromkeys(("queues", "workers", "poller", "eviction_policy"))
    return {
        "queues": [_queue(queue, overview) for queue in overview.queues],
        "workers": [_worker(worker) for worker in overview.workers],
        "poller": overview.poller,
        "eviction_policy": overview.eviction_policy,
    }


def _queue(queue: QueueDepth, overview: Overview) -> dict[str, Any]:
    return {
        **_depth(queue),
        "live_workers": serving(queue.name, overview),
        "last_hour": _metrics(overview.metrics[queue.name]) if queue.name in overview.metrics else None,
    }


def _depth(queue: QueueDepth) -> dict[str, Any]:
    return {
        "name": queue.name,
        "ready": queue.ready,
        "scheduled": queue.scheduled,
        "running": queue.running,
        "failed": queue.failed,
        "unregistered": queue.unregistered,
        "oldest_age_s": queue.oldest_age_s,
        "next_due_at": time_figure(queue.next_due_at),
        "paused": _pause(queue.paused),
        "limited": queue.limited,
        "waiting": queue.waiting,
    }


def queue_figures(snapshot: QueueSnapshot) -> dict[str, Any]:
    """All figures of a queue's page."""
    depth = snapshot.depth
    return {
        "at": time_figure(snapshot.at),
        "environment": conf.settings().dashboard.environment,
        "address": snapshot.address,
        "queue": {**_depth(depth), "last_hour": _metrics(snapshot.minutes), "last_day": _metrics(snapshot.hours)},
        "tasks": [
            {"name": task.name or None, **dataclasses.asdict(task.totals), **_spreads(task)}
            for task in snapshot.minutes.tasks
        ],
        "failures": [
            {
                **dataclasses.asdict(group),
                "first_at": time_figure(group.first_at),
                "last_at": time_figure(group.last_at),
            }
            for group in snapshot.errors
        ],
        "cost": cost_figures(snapshot.cost),
    }


def _metrics(metrics: Metrics) -> dict[str, Any]:
    return {
        **dataclasses.asdict(metrics.totals),
        "finished": metrics.totals.finished,
        "per_minute": round(metrics.per_minute(), 3),
        **_spreads(metrics),
        "spans": [
            {"at": time_figure(span.at), "succeeded": span.counts.succeeded, "failed": span.counts.failed}
            for span in metrics.spans
        ],
    }


def _spreads(metrics: Metrics | TaskMetrics) -> dict[str, Any]:
    return {
        f"{name}_s": {"p50": spread.p50, "p95": spread.p95, "p99": spread.p99}
        for name, spread in (("waited", metrics.waited), ("ran", metrics.ran))
    }


def cost_figures(cost: Cost) -> dict[str, Any]:
    """What reading took."""
    return {
        "commands": cost.commands,
        "round_trips": cost.round_trips,
        "seconds": round(cost.seconds, 6),
    }


def _pause(pause: Pause | None) -> dict[str, Any] | None:
    if pause is None:
        return None
    return {
        "reason": pause.reason,
        "author": pause.author,
        "at": time_figure(pause.at),
        "until": time_figure(pause.until),
    }


def _worker(worker: WorkerInfo) -> dict[str, Any]:
    return {
        "id": worker.id,
        "alive": is_alive(worker),
        "seen_s": worker.seen_s,
        "host": worker.host,
        "pid": worker.pid,
        "queues": list(worker.queues),
        "threads": worker.threads,
        "busy": worker.busy,
        "finished": worker.finished,
        "started_at": time_figure(worker.started_at),
    }


def _schedule(schedule: ScheduleInfo) -> dict[str, Any]:
    return {
        name: time_figure(value) if isinstance(value, datetime) else value
        for name, value in dataclasses.asdict(schedule).items()
    }


def _visitors(visitors: Visitors) -> dict[str, Any]:
    return {
        "name": visitors.name,
        "today": int(list(visitors.days.values())[-1]),
        "range_days": len(visitors.days),
        "range": int(visitors.range),
        "exact_range": visitors.range.exact_range,
        "standard_error": visitors.range.error,
        "days": {day.isoformat(): int(count) for day, count in visitors.days.items()},
    }


def _sign_ins(sign_ins: SignInDays) -> dict[str, Any]:
    return {
        "name": sign_ins.name,
        "today": list(sign_ins.days.values())[-1],
        "days": {day.isoformat(): count for day, count in sign_ins.days.items()},
    }


def time_figure(at: datetime | None) -> str | None:
    """A moment in UTC, to the millisecond."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds") if at else None
