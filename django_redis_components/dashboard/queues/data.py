"""The page of one queue as JSON."""

from __future__ import annotations

import dataclasses
from typing import Any

from django_redis_components.core import conf
from django_redis_components.dashboard.json_data import cost_data, depth_data, metrics_data, quantiles_data, time_data
from django_redis_components.dashboard.queues.snapshot import QueueSnapshot


def queue_data(snapshot: QueueSnapshot) -> dict[str, Any]:
    """Return a snapshot."""
    last_hour, last_day = metrics_data(snapshot.minutes), metrics_data(snapshot.hours)
    return {
        "at": time_data(snapshot.at),
        "environment": conf.settings().dashboard.environment,
        "address": snapshot.address,
        "queue": {**depth_data(snapshot.depth), "last_hour": last_hour, "last_day": last_day},
        "tasks": [
            {"name": task.name or None, **dataclasses.asdict(task.totals), **quantiles_data(task)}
            for task in snapshot.minutes.tasks
        ],
        "failures": [
            {
                **dataclasses.asdict(group),
                "first_at": time_data(group.first_at),
                "last_at": time_data(group.last_at),
            }
            for group in snapshot.errors
        ],
        "cost": cost_data(snapshot.cost),
    }
