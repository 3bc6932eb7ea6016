"""Schedules as JSON: how those that were added at run time are stored."""

from __future__ import annotations

import json
from typing import Any

from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.schedules.recurrence import CronTimes, FixedInterval, Recurrence
from django_redis_components.taskqueue.schedules.schedule import Schedule, create
from django_redis_components.taskqueue.task import Task

#: Longest definition in characters: pollers read all definitions after each change.
MAX_DEFINITION = 100_000


def encode(schedule: Schedule) -> str:
    """Return a schedule as JSON.

    Raises:
        ValueError: it is longer than 100,000 characters.
    """
    definition = json.dumps(
        {
            "task": schedule.task.name,
            **_encode_recurrence(schedule.recurrence),
            "args": schedule.args,
            "kwargs": schedule.kwargs,
            "misfire": schedule.misfire,
            "max_age": None if schedule.max_age_ms is None else schedule.max_age_ms / 1_000,
            "jitter": schedule.jitter_ms / 1_000,
        },
        separators=(",", ":"),
    )
    if len(definition) > MAX_DEFINITION:
        raise ValueError(f"its definition has {len(definition):,} characters, at most {MAX_DEFINITION:,} are accepted.")
    return definition


def parse(name: str, definition: bytes) -> Schedule:
    """Return a stored schedule.

    Raises:
        ValueError: its task is not registered in this process, does not accept the arguments any more, or the text is
            not such a definition.
    """
    try:
        data: dict[str, Any] = json.loads(definition)
        recurrence, task_name = _parse_recurrence(data), data.pop("task")
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, InvalidTask) as exc:
        raise ValueError(f"it is not a definition ({exc!r}).") from exc
    task = registry.find(task_name) if isinstance(task_name, str) else None
    if not isinstance(task, Task):
        raise ValueError(f"the task {task_name!r} is not registered in this process.")
    try:
        return create(task, recurrence, {**data, "name": name})  # type: ignore[typeddict-item]
    except (TypeError, ValueError, InvalidTask) as exc:
        raise ValueError(str(exc)) from exc


def _encode_recurrence(recurrence: Recurrence) -> dict[str, Any]:
    if isinstance(recurrence, FixedInterval):
        return {"every": recurrence.every_ms / 1_000}
    if isinstance(recurrence, CronTimes):
        return {"cron": recurrence.expression, "tz": recurrence.zone.key if recurrence.zone else None}
    raise TypeError(f"{recurrence!r}: expected an interval or the times of a cron expression.")


def _parse_recurrence(data: dict[str, Any]) -> Recurrence:
    if "every" in data:
        return FixedInterval.of(data.pop("every"))
    return CronTimes.of(data.pop("cron"), data.pop("tz"))
