"""JSON of pages, commands and panels: the encoder, and what several pages share."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder

from django_redis_components.core.settings import conf
from django_redis_components.core.units import aware
from django_redis_components.dashboard.bounded_client import Cost
from django_redis_components.taskqueue import Metrics, TaskMetrics
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo, TaskQueueOverview


class JSONEncoder(DjangoJSONEncoder):
    """Encodes dataclasses by their fields, and times in UTC with milliseconds."""

    def default(self, o: Any) -> Any:
        """Return what JSON has for an object that it does not know."""
        if isinstance(o, datetime):
            return time_data(o)
        return fields_of(o) if dataclasses.is_dataclass(o) else super().default(o)


def fields_of(o: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, as they are: `JSONEncoder` encodes their values."""
    return {field.name: getattr(o, field.name) for field in dataclasses.fields(o)}


def time_data(at: datetime | None) -> str | None:
    """Return a time in UTC with milliseconds."""
    return aware(at).astimezone(UTC).isoformat(timespec="milliseconds") if at else None


def page_data(snapshot: Any, content: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of a page: its content, when and from where it was read, and at what cost."""
    return {
        "at": snapshot.at,
        "environment": conf.settings().dashboard.environment,
        "address": snapshot.address,
        **content,
        "cost": cost_data(snapshot.cost),
    }


def cost_data(cost: Cost) -> dict[str, Any]:
    """Return the cost of reading the page."""
    return {
        "commands": cost.commands,
        "round_trips": cost.round_trips,
        "seconds": round(cost.seconds, 6),
    }


def metrics_data(metrics: Metrics) -> dict[str, Any]:
    """Return the metrics of a queue."""
    return {
        **fields_of(metrics.totals),
        "finished": metrics.totals.finished,
        "per_minute": round(metrics.per_minute(), 3),
        **quantiles_data(metrics),
        "intervals": [
            {
                "at": interval.at,
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


def queue_data(queue: QueueInfo, overview: TaskQueueOverview) -> dict[str, Any]:
    """Return a queue of an overview with its last hour, which is null if it was not read."""
    metrics = overview.metrics.get(queue.name)
    return {**fields_of(queue), "last_hour": metrics_data(metrics) if metrics else None}
