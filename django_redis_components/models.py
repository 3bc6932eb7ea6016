"""The models that Django looks for here: anchors of the dashboard, without a table and without migrations."""

from __future__ import annotations

from django_redis_components.dashboard.models import (
    Action,
    Analytics,
    Autocomplete,
    Failure,
    LiveEvent,
    Lock,
    Messaging,
    Overview,
    Queues,
    RateLimit,
    Schedule,
    Task,
    TaskFlow,
    Worker,
)

__all__ = [
    "Action",
    "Analytics",
    "Autocomplete",
    "Failure",
    "LiveEvent",
    "Lock",
    "Messaging",
    "Overview",
    "Queues",
    "RateLimit",
    "Schedule",
    "Task",
    "TaskFlow",
    "Worker",
]
