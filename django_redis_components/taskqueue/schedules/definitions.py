"""Schedules as JSON: how those that were added at run time are stored."""

from __future__ import annotations

import json
from typing import Any

from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.schedules.recurrence import CronTimes, FixedInterval, Slots
from django_redis_components.taskqueue.schedules.schedule import Schedule, create
from django_redis_components.taskqueue.task import Task

#: Longest definition in characters: pollers read all definitions after each change.
MAX_DEFINITION = 100_000


def encode(schedule: Schedule) -> str:
    """Return a schedule as JSON.

    Raises:
        ValueError: it is longer than 100,000 characters.
    """
    text = json.dumps(
        {
            "task": schedule.task.name,
            **_encode_slots(schedule.slots),
            "args": schedule.args,
            "kwargs": schedule.kwargs,
            "misfire": schedule.misfire,
            "max_age": None if schedule.max_age_ms is None else schedule.max_age_ms / 1_000,
            "jitter": schedule.jitter_ms / 1_000,
        },
        separators=(",", ":"),
    )
    if len(text) > MAX_DEFINITION:
        raise ValueError(f"its definition has {len(text):,} characters, at most {MAX_DEFINITION:,} are accepted.")
    return text


def parse(name: str, text: bytes) -> Schedule:
    """Return a stored schedule.

    Raises:
        ValueError: its task is not registered in this process, does not accept the arguments any more, or the text is
            not such a definition.
    """
    try:
        data: dict[str, Any] = json.loads(text)
        slots, task_name = _parse_slots(data), data.pop("task")
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, InvalidTask) as exc:
        raise ValueError(f"it is not a definition ({exc!r}).") from exc
    task = registry.find(task_name) if isinstance(task_name, str) else None
    if not isinstance(task, Task):
        raise ValueError(f"the task {task_name!r} is not registered in this process.")
    try:
        return create(task, slots, {**data, "name": name})  # type: ignore[typeddict-item]
    except (TypeError, ValueError, InvalidTask) as exc:
        raise ValueError(str(exc)) from exc


def _encode_slots(slots: Slots) -> dict[str, Any]:
    if isinstance(slots, FixedInterval):
        return {"every": slots.every_ms / 1_000}
    if isinstance(slots, CronTimes):
        return {"cron": slots.expression, "tz": slots.zone.key if slots.zone else None}
    raise TypeError(f"{slots!r}: expected an interval or the times of a cron expression.")


def _parse_slots(data: dict[str, Any]) -> Slots:
    if "every" in data:
        return FixedInterval.of(data.pop("every"))
    return CronTimes.of(data.pop("cron"), data.pop("tz"))
