"""Our options on a task of Django's framework, and what holds for tasks that do not set them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Self, cast

from django_redis_components.core.units import Seconds
from django_redis_components.taskqueue.tasks.backoff import Backoff
from django_redis_components.taskqueue.tasks.options import TaskOptions
from django_redis_components.taskqueue.tasks.timeouts import Timeout

#: Options of ours that a task of Django's framework can have. Each is a field of `QueueOptions`, and in upper
#: case a key in OPTIONS.
NAMES = ("max_attempts", "max_deliveries", "backoff", "timeout", "result_ttl")


@dataclasses.dataclass(frozen=True, kw_only=True)
class QueueOptions:
    """Mixin for `Task`. None means what OPTIONS says, or else what `taskqueue.options.TaskOptions` says.

    Attributes:
        max_attempts: exceptions after which the task has failed.
        max_deliveries: deaths of workers after which it has failed.
        backoff: before another attempt: seconds, a list of them, or (not in `using()`) a callable.
        timeout: seconds that a run may take, or (soft, hard).
        result_ttl: seconds for which the result of a success is kept.
    """

    max_attempts: int | None = None
    max_deliveries: int | None = None
    backoff: Backoff | None = None
    timeout: Timeout | None = None
    result_ttl: Seconds | None = None

    def __post_init__(self) -> None:
        # As JSON will carry them, so that the task of a result equals the task that was sent.
        object.__setattr__(self, "backoff", _plain(self.backoff))
        object.__setattr__(self, "timeout", _plain(self.timeout))
        object.__setattr__(self, "result_ttl", _plain(self.result_ttl))
        cast(Any, super()).__post_init__()

    def using(
        self,
        *,
        max_attempts: int | None = None,
        max_deliveries: int | None = None,
        backoff: Backoff | None = None,
        timeout: Timeout | None = None,
        result_ttl: Seconds | None = None,
        **options: Any,
    ) -> Self:
        """The same task with other options; None leaves an option as it is.

        Args:
            options: those of the framework: priority, queue_name, run_after, backend.
        """
        given = {
            "max_attempts": max_attempts,
            "max_deliveries": max_deliveries,
            "backoff": backoff,
            "timeout": timeout,
            "result_ttl": result_ttl,
        }
        made: Self = cast(Any, super()).using(**options)
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return dataclasses.replace(made, **changes) if changes else made


def resolved(task: Any, defaults: Mapping[str, Any]) -> TaskOptions:
    """The options that hold for a task.

    Args:
        task: of the framework; without our options if it was made for another backend.
        defaults: OPTIONS of the backend.

    Raises:
        taskqueue.InvalidTask: a value is not accepted.
    """
    chosen = {name: getattr(task, name, None) for name in NAMES}
    for name, value in chosen.items():
        if value is None:
            chosen[name] = defaults.get(name.upper())
    told = {name: value for name, value in chosen.items() if value is not None}
    return TaskOptions(queue_name=task.queue_name, priority=int(task.priority), run_after=task.run_after, **told)


def own(task: Any) -> dict[str, Any]:
    """The options that the task itself sets, as far as JSON can carry them."""
    given = {name: getattr(task, name, None) for name in NAMES}
    return {name: value for name, value in given.items() if value is not None and not callable(value)}


def restored(source: Any, carried: Mapping[str, Any]) -> dict[str, Any]:
    """The values of our options that a task was sent with.

    Args:
        source: the task as it was made; its backoff holds if it is a callable, which does not travel.
        carried: what `own` gave.
    """
    values = {name: _plain(carried.get(name)) for name in NAMES if hasattr(source, name)}
    if callable(getattr(source, "backoff", None)) and "backoff" not in carried:
        values["backoff"] = source.backoff
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_plain(item) for item in value)
    return value.total_seconds() if isinstance(value, timedelta) else value
