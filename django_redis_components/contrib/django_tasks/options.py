"""Our options on a task of Django's framework, and what holds for tasks that do not set them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Self, cast

from django_redis_components.core.units import Seconds
from django_redis_components.taskqueue.context import without_context
from django_redis_components.taskqueue.limits import Concurrency, Rate
from django_redis_components.taskqueue.options import TaskOptions, Timeout, check_keys
from django_redis_components.taskqueue.retry import Backoff
from django_redis_components.taskqueue.unique import Unique

#: Options of ours that a task of Django's framework can have. Each is a field of `QueueOptions`, and in upper
#: case a key in OPTIONS.
NAMES = (
    "max_attempts",
    "max_deliveries",
    "backoff",
    "timeout",
    "concurrency",
    "rate",
    "unique",
    "expires",
    "result_ttl",
)
#: Options whose values may be of a class of ours, which JSON carries as a dict.
_CLASSES: dict[str, type[Any]] = {"concurrency": Concurrency, "rate": Rate, "unique": Unique}


@dataclasses.dataclass(frozen=True, kw_only=True)
class QueueOptions:
    """Mixin for `Task`. None means what OPTIONS says, or else what `taskqueue.options.TaskOptions` says.

    Attributes:
        max_attempts: exceptions after which the task has failed.
        max_deliveries: deaths of workers after which it has failed.
        backoff: before another attempt: seconds, a list of them, or (not in `using()`) a callable.
        timeout: seconds that a run may take, or (soft, hard).
        concurrency: how many run at once over all workers: a number, or a `Concurrency`.
        rate: how many start in a time over all workers: "10/m", (10, 60), or a `Rate`.
        unique: True, "finished", "started", a duration, or a `Unique`; False: not, whatever OPTIONS says.
        expires: a datetime, or seconds or a timedelta: a task that has not begun by then is not run.
        result_ttl: seconds for which the result of a success is kept.
    """

    max_attempts: int | None = None
    max_deliveries: int | None = None
    backoff: Backoff | None = None
    timeout: Timeout | None = None
    concurrency: int | Concurrency | None = None
    rate: str | tuple[int, Seconds] | Rate | None = None
    unique: bool | str | Seconds | Unique | None = None
    expires: datetime | Seconds | None = None
    result_ttl: Seconds | None = None

    def __post_init__(self) -> None:
        # As JSON will carry them, so that the task of a result equals the task that was sent.
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
        unique: bool | str | Seconds | Unique | None = None,
        expires: datetime | Seconds | None = None,
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
            "concurrency": concurrency,
            "rate": rate,
            "unique": unique,
            "expires": expires,
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
    made = TaskOptions(queue_name=task.queue_name, priority=int(task.priority), run_after=task.run_after, **told)
    check_keys(called(task), made)
    return made


def called(task: Any) -> Callable[..., Any]:
    """The function of a task of the framework, as those call it who enqueue it: without a context."""
    return without_context(task.func) if task.takes_context else task.func


def own(task: Any) -> dict[str, Any]:
    """The options that the task itself sets, as far as JSON can carry them."""
    given = {name: getattr(task, name, None) for name in NAMES}
    return {name: _json(value) for name, value in given.items() if value is not None and _travels(value)}


def restored(source: Any, carried: Mapping[str, Any]) -> dict[str, Any]:
    """The values of our options that a task was sent with.

    Args:
        source: the task as it was made; what it has of a callable holds, which does not travel.
        carried: what `own` gave.
    """
    values = {name: _value(name, carried.get(name)) for name in NAMES if hasattr(source, name)}
    for name in values.keys() - carried.keys():
        if not _travels(getattr(source, name)):
            values[name] = getattr(source, name)
    return values


def _travels(value: Any) -> bool:
    """Whether JSON can carry it: neither a callable nor a limit whose key is one."""
    return not callable(value) and not callable(getattr(value, "key", None))


def _json(value: Any) -> Any:
    if isinstance(value, Concurrency | Rate | Unique):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {name: each for name, each in fields.items() if each is not None}
    return value.isoformat() if isinstance(value, datetime) else value


def _value(name: str, carried: Any) -> Any:
    """What `_json` was given."""
    if isinstance(carried, dict):
        return _CLASSES[name](**{each: _plain(value) for each, value in carried.items()})
    return datetime.fromisoformat(carried) if name == "expires" and isinstance(carried, str) else _plain(carried)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_plain(item) for item in value)
    if isinstance(value, Rate):
        return dataclasses.replace(value, rate=_plain(value.rate))
    if isinstance(value, Unique):
        return dataclasses.replace(value, until=_plain(value.until))
    return value.total_seconds() if isinstance(value, timedelta) else value
