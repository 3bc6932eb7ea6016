"""JSON of what several pages share: times, cost, outages, depths and metrics of queues."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

from django_redis_components.core.units import aware
from django_redis_components.dashboard.bounded_client import Cost
from django_redis_components.dashboard.outages import Outage
from django_redis_components.taskqueue import Metrics, TaskMetrics
from django_redis_components.taskqueue.stats.queue_stats import QueueDepth, QueuePause


def time_data(at: datetime | None) -> str | None:
    """Return a time in UTC with milliseconds."""
    return aware(at).astimezone(UTC).isoformat(timespec="milliseconds") if at else None


def cost_data(cost: Cost) -> dict[str, Any]:
    """Return the cost of reading the page."""
    return {
        "commands": cost.commands,
        "round_trips": cost.round_trips,
        "seconds": round(cost.seconds, 6),
    }


def outage_data(outage: Outage) -> dict[str, Any]:
    """Return an outage."""
    return {
        "error": {
            "code": outage.code,
            "title": outage.title,
            "advice": outage.advice,
            "address": outage.address,
            "detail": outage.detail,
        }
    }


def depth_data(queue: QueueDepth) -> dict[str, Any]:
    """Return the depths of a queue."""
    return {
        "name": queue.name,
        "ready": queue.ready,
        "scheduled": queue.scheduled,
        "running": queue.running,
        "failed": queue.failed,
        "unregistered": queue.unregistered,
        "oldest_age": queue.oldest_age,
        "next_due_at": time_data(queue.next_due_at),
        "paused": _pause(queue.paused),
        "limited": queue.limited,
        "waiting": queue.waiting,
        "retrying": queue.retrying,
    }


def metrics_data(metrics: Metrics) -> dict[str, Any]:
    """Return the metrics of a queue."""
    return {
        **dataclasses.asdict(metrics.totals),
        "finished": metrics.totals.finished,
        "per_minute": round(metrics.per_minute(), 3),
        **quantiles_data(metrics),
        "intervals": [
            {
                "at": time_data(interval.at),
                "succeeded": interval.counts.succeeded,
                "failed": interval.counts.failed,
            }
            for interval in metrics.intervals
        ],
    }


def quantiles_data(metrics: Metrics | TaskMetrics) -> dict[str, Any]:
    """Return the quantiles of wait and run time, in seconds."""
    return {
        name: {"p50": histogram.p50, "p95": histogram.p95, "p99": histogram.p99}
        for name, histogram in (("wait_time", metrics.wait_time), ("run_time", metrics.run_time))
    }


def _pause(pause: QueuePause | None) -> dict[str, Any] | None:
    if pause is None:
        return None
    return {
        "reason": pause.reason,
        "author": pause.author,
        "at": time_data(pause.at),
        "ends_at": time_data(pause.ends_at),
    }
