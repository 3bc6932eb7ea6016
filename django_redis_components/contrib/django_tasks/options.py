"""The queue's options for tasks of Django's framework, and their defaults from OPTIONS."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Self, cast

from django_redis_components.core.units import Seconds
from django_redis_components.taskqueue.context import without_context
from django_redis_components.taskqueue.fair_share import FairShare
from django_redis_components.taskqueue.limits import Concurrency, Key, Rate
from django_redis_components.taskqueue.options import TaskOptions, Timeout, check_keys
from django_redis_components.taskqueue.retry import Backoff
from django_redis_components.taskqueue.unique import Unique

#: The queue's options that a task of Django's framework can set. Each is a field of `QueueOptions` and, in upper
#: case, a key of OPTIONS.
NAMES = (
    "max_attempts",
    "max_deliveries",
    "backoff",
    "timeout",
    "concurrency",
    "rate",
    "fair",
    "unique",
    "expires",
    "result_ttl",
)
#: Options whose values may be objects, which are stored in JSON as dicts.
_CLASSES: dict[str, type[Any]] = {
    "concurrency": Concurrency,
    "rate": Rate,
    "fair": FairShare,
    "unique": Unique,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class QueueOptions:
    """Mixin for `Task`. None means the value in OPTIONS, or else the default of `taskqueue.options.TaskOptions`.

    Attributes:
        max_attempts: number of failed attempts after which the task has failed for good.
        max_deliveries: number of worker deaths after which it has failed.
        backoff: delay before a retry: seconds, a list of them, or (not in `using()`) a callable.
        timeout: run time limit in seconds, or (soft, hard).
        concurrency: maximum number of simultaneous runs over all workers: a number, or a `Concurrency`.
        rate: maximum number of starts per period over all workers: "10/m", (10, 60), or a `Rate`.
        fair: a template, a function or a `FairShare`: groups of tasks that are served in turn.
        unique: True, "finished", "started", a duration, or a `Unique`; False overrides OPTIONS.
        expires: a datetime, seconds or a timedelta: a task that has not started by then is not run.
        result_ttl: seconds for which the result of a successful task is kept.
    """

    max_attempts: int | None = None
    max_deliveries: int | None = None
    backoff: Backoff | None = None
    timeout: Timeout | None = None
    concurrency: int | Concurrency | None = None
    rate: str | tuple[int, Seconds] | Rate | None = None
    fair: Key | FairShare | None = None
    unique: bool | str | Seconds | Unique | None = None
    expires: datetime | Seconds | None = None
    result_ttl: Seconds | None = None

    def __post_init__(self) -> None:
        # Stored as JSON returns them, so that the task of a result equals the enqueued task.
        for name in NAMES:
            object.__setattr__(self, name, _plain(getattr(self, name)))
        cast(Any, super()).__post_init__()

    def using(
        self,
        *,
        max_attempts: int | None = None,
        max_deliveries: int | None = None,
        backoff: Backoff | None = None,
        timeout: Timeout | None = None,
        concurrency: int | Concurrency | None = None,
        rate: str | tuple[int, Seconds] | Rate | None = None,
        fair: Key | FairShare | None = None,
        unique: bool | str | Seconds | Unique | None = None,
        expires: datetime | Seconds | None = None,
        result_ttl: Seconds | None = None,
        **options: Any,
    ) -> Self:
        """Return a copy of the task with other options; None leaves an option unchanged.

        Args:
            options: the framework's own: priority, queue_name, run_after, backend.
        """
        own_options = {
            "max_attempts": max_attempts,
            "max_deliveries": max_deliveries,
            "backoff": backoff,
            "timeout": timeout,
            "concurrency": concurrency,
            "rate": rate,
            "fair": fair,
            "unique": unique,
            "expires": expires,
            "result_ttl": result_ttl,
        }
        copy: Self = cast(Any, super()).using(**options)
        changes: dict[str, Any] = {name: value for name, value in own_options.items() if value is not None}
        return dataclasses.replace(copy, **changes) if changes else copy


def resolve(task: Any, defaults: Mapping[str, Any]) -> TaskOptions:
    """Return the options of a task, with the defaults of its backend.

    Args:
        task: a task of the framework; it has none of the options if it was defined for another backend.
        defaults: OPTIONS of the backend.

    Raises:
        taskqueue.InvalidTask: a value is not accepted.
    """
    chosen = {name: getattr(task, name, None) for name in NAMES}
    for name, value in chosen.items():
        if value is None:
            chosen[name] = defaults.get(name.upper())
    explicit = {name: value for name, value in chosen.items() if value is not None}
    made = TaskOptions(queue_name=task.queue_name, priority=int(task.priority), run_after=task.run_after, **explicit)
    check_keys(function_without_context(task), made)
    return made


def function_without_context(task: Any) -> Callable[..., Any]:
    """Return the function of a task with the signature of `enqueue`: without the context."""
    return without_context(task.func) if task.takes_context else task.func


def dump(task: Any) -> dict[str, Any]:
    """Return the options that the task itself sets and that JSON can represent, as JSON data."""
    given = {name: getattr(task, name, None) for name in NAMES}
    return {name: _json(value) for name, value in given.items() if value is not None and _is_serializable(value)}


def load(source: Any, headers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a task was enqueued with.

    Args:
        source: the task as it was defined. Its callables are used, because they are not sent.
        headers: the return value of `dump`.
    """
    values = {name: _value(name, headers.get(name)) for name in NAMES if hasattr(source, name)}
    for name in values.keys() - headers.keys():
        if not _is_serializable(getattr(source, name)):
            values[name] = getattr(source, name)
    return values


def _is_serializable(value: Any) -> bool:
    """Return whether JSON can represent a value: neither a callable nor an object with a callable key or weight."""
    return (
        not callable(value)
        and not callable(getattr(value, "key", None))
        and not callable(getattr(value, "weight", None))
    )


def _json(value: Any) -> Any:
    """Return an option as JSON. Defaults are left out: an earlier version may not have the attribute."""
    if isinstance(value, Concurrency | Rate | FairShare | Unique):
        fields = {field: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {field.name: each for field, each in fields.items() if each != field.default}
    return value.isoformat() if isinstance(value, datetime) else value


def _value(name: str, stored: Any) -> Any:
    """Invert `_json`."""
    if isinstance(stored, dict):
        return _CLASSES[name](**{each: _plain(value) for each, value in stored.items()})
    return datetime.fromisoformat(stored) if name == "expires" and isinstance(stored, str) else _plain(stored)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_plain(item) for item in value)
    if isinstance(value, Rate):
        return dataclasses.replace(value, rate=_plain(value.rate))
    if isinstance(value, Unique):
        return dataclasses.replace(value, until=_plain(value.until))
    return value.total_seconds() if isinstance(value, timedelta) else value
