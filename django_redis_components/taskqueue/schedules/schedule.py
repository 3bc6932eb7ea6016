"""`@every` and `@cron`: tasks that the poller enqueues periodically."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from typing import Any, Literal, TypedDict, TypeVar, Unpack, get_args

from django_redis_components.core import keys, serialization
from django_redis_components.core.arguments import check_choice, check_flag, check_int, check_sequence, short_repr
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.taskqueue import origin, placement
from django_redis_components.taskqueue.enqueue import prepare
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.schedules.recurrence import (
    CronTimes,
    FixedInterval,
    OneTime,
    Recurrence,
    moment_ms,
)
from django_redis_components.taskqueue.shards import Shard, place, route_of
from django_redis_components.taskqueue.store.messages import TaskMessage
from django_redis_components.taskqueue.store.task_records import ID_BYTES
from django_redis_components.taskqueue.task import Task

T = TypeVar("T")

#: The handling of due times that passed without an active poller.
Misfire = Literal["once", "skip", "all"]
#: Default maximum delay of a due time in seconds; None: no limit.
MAX_AGE_S: dict[str, float | None] = {"once": None, "skip": 60.0, "all": 86_400.0}
#: Maximum due times that misfire="all" enqueues at once; the newest are kept.
MAX_CATCH_UP = 100
#: Largest limit of the tasks that a schedule sends.
MAX_COUNT = 1_000_000_000

#: Schedules by connection and name.
schedules: dict[tuple[str, str], Schedule] = {}


class ScheduleOptions(TypedDict, total=False):
    """The common options of `every` and `cron`; see `cron`."""

    args: Sequence[Any]
    kwargs: dict[str, Any]
    misfire: Misfire
    max_age: Seconds | None
    jitter: Seconds
    enabled: bool
    name: str
    start: datetime | None
    end: datetime | None
    count: int | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A periodic task: the task, its arguments and its due times.

    Attributes:
        name: identifies it in Redis; unique per connection.
        recurrence: its due times.
        misfire: the handling of due times that passed without an active poller.
        max_age_ms: maximum delay of a due time; None: no limit.
        jitter_ms: maximum random delay; constant for a due time.
        enabled: whether it is active, as its code states.
        is_paused: whether an operator has paused it.
        start_ms, end_ms: its first and its last possible due time; None: no limit.
        count: most tasks that it sends; None: no limit.
        task_options: JSON: the options of its task that were given at run time; `task` has them.
    """

    name: str
    task: Task[..., Any, Any]
    recurrence: Recurrence
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    misfire: Misfire = "once"
    max_age_ms: int | None = None
    jitter_ms: int = 0
    enabled: bool = True
    is_paused: bool = False
    start_ms: int | None = None
    end_ms: int | None = None
    count: int | None = None
    task_options: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def is_active(self) -> bool:
        """Whether its due times are sent."""
        return self.enabled and not self.is_paused

    @property
    def last_possible_ms(self) -> int | None:
        """The time after which nothing is due; None without an end."""
        return self.recurrence.at_ms if isinstance(self.recurrence, OneTime) else self.end_ms

    def following(self, after_ms: int) -> int | None:
        """Return the first due time after a time, or None."""
        due_ms = self.recurrence.following(after_ms if self.start_ms is None else max(after_ms, self.start_ms - 1))
        return None if due_ms is None or (self.end_ms is not None and due_ms > self.end_ms) else due_ms

    def due(self, last_ms: int, now_ms: int) -> list[int]:
        """Return the due times to enqueue now, oldest first, after those until `last_ms` were handled."""
        after_ms = last_ms if self.max_age_ms is None else max(last_ms, now_ms - self.max_age_ms - 1)
        after_ms = after_ms if self.start_ms is None else max(after_ms, self.start_ms - 1)
        max_times = MAX_CATCH_UP if self.misfire == "all" else 1
        found: list[int] = []
        until_ms = now_ms if self.end_ms is None else min(now_ms, self.end_ms)
        while len(found) < max_times and (due_ms := self.recurrence.latest(after_ms, until_ms)) is not None:
            found.append(due_ms)
            until_ms = due_ms - 1
        return found[::-1]

    @property
    def shard(self) -> Shard:
        """The shard that sends it: on a spread queue that of its task's placement key, or else of its name."""
        route = route_of(self.task.options.queue_name, self.task.connection)
        if len(route) == 1:
            return route[0]
        try:
            key = placement.key_of(self.task, self.args, self.kwargs)
        except (TypeError, ValueError, InvalidTask):  # it is logged at each due time
            key = ""
        return place(route, key or f"schedule:{self.name}")

    def message(self, due_ms: int) -> TaskMessage:
        """Return the message of a due time's task; its id is derived from the due time."""
        message = prepare(self.task, self.args, self.kwargs, task_id=self.task_id(due_ms))[1]
        message.origin = origin.of_schedule(self.name)
        if self.jitter_ms:
            message.due = str(due_ms + self._jitter_ms(due_ms))
        return message

    def task_id(self, due_ms: int) -> str:
        """Return the id of a due time's task; equal in all processes."""
        text = base64.urlsafe_b64encode(self._digest(due_ms)[:ID_BYTES]).decode()
        return f"_{text[1:]}" if text.startswith("-") else text

    def _jitter_ms(self, due_ms: int) -> int:
        return int.from_bytes(self._digest(due_ms)[ID_BYTES:]) % (self.jitter_ms + 1)

    def _digest(self, due_ms: int) -> bytes:
        return hashlib.blake2b(f"{due_ms} {self.name}".encode(), digest_size=ID_BYTES + 8).digest()


def every(interval: Seconds, /, **options: Unpack[ScheduleOptions]) -> Callable[[T], T]:
    """Enqueue a task at an interval (seconds or timedelta), counted from the epoch: ``@every(300)`` above ``@task``.

    Args:
        interval: at least a second.
        options: see `cron`.

    Raises:
        InvalidTask: the interval or an option is invalid, or the decorated object is not a task.
    """
    recurrence = FixedInterval.of(interval)
    return lambda target: _register_for(target, recurrence, f"@every({short_repr(interval)})", options)


def cron(expression: str, /, *, tz: str | tzinfo | None = None, **options: Unpack[ScheduleOptions]) -> Callable[[T], T]:
    """Enqueue a task at the times of a cron expression: ``@cron("*/5 * * * *")`` above ``@task``.

    Args:
        expression: minute, hour, day of month, month, day of week; or a nickname such as "@daily".
        tz: name of the time zone, or a ZoneInfo; TIME_ZONE by default.
        options: args and kwargs of the task; misfire and max_age (seconds or timedelta) for due times that passed
            without an active poller; jitter (seconds or timedelta); enabled; name, its identifier in Redis; start and
            end (datetimes), its first and its last possible due time; count, the most tasks that it sends.

    Raises:
        InvalidTask: the expression, the zone or an option is invalid, or the decorated object is not a task.
    """
    recurrence = CronTimes.of(expression, tz)
    return lambda target: _register_for(target, recurrence, f"@cron({short_repr(expression)})", options)


def registered(using: str | None = None, shard: Shard | None = None) -> list[Schedule]:
    """Return the schedules of a connection, or all, ordered by name; with `shard` those of one."""
    found = [schedules[key] for key in sorted(schedules) if using in (None, key[0])]
    return [each for each in found if shard in (None, each.shard)]


def _register_for(target: T, recurrence: Recurrence, label: str, options: ScheduleOptions) -> T:
    """Register a schedule for a task; return the decorated object."""
    task = _task_of(target, label)
    try:
        _register(create(task, recurrence, options))
    except (TypeError, ValueError, InvalidTask) as exc:
        raise InvalidTask(f"{label} on {task.name}: {str(exc).removeprefix(f'{task.name} ')}") from exc
    return target


def create(task: Task[..., Any, Any], recurrence: Recurrence, options: ScheduleOptions) -> Schedule:
    """Return a schedule that is not registered.

    Raises:
        TypeError, ValueError: an option is invalid, or the task does not accept the arguments.
    """
    if unknown := sorted(set(options) - set(ScheduleOptions.__annotations__)):
        raise TypeError(f"unknown option {', '.join(unknown)}. Accepted: {', '.join(ScheduleOptions.__annotations__)}.")
    given, named = options.get("args", ()), options.get("kwargs", {})
    check_sequence(given, "args", "arguments")
    if not isinstance(named, dict):
        raise TypeError(f"kwargs={short_repr(named)}: expected a dict.")
    args = serialization.normalize(list(given), "args")
    kwargs = serialization.normalize(named, "kwargs")
    misfire = options.get("misfire", "once")
    check_choice(misfire, "misfire", get_args(Misfire))
    enabled = check_flag(options.get("enabled", True), "enabled")
    max_age = options.get("max_age", MAX_AGE_S[misfire])
    schedule = Schedule(
        name=keys.validate_name(options.get("name", _name(task, recurrence, args, kwargs)), "name"),
        task=task,
        recurrence=recurrence,
        args=tuple(args),
        kwargs=kwargs,
        misfire=misfire,
        max_age_ms=None if max_age is None else to_ms(max_age, "max_age"),
        jitter_ms=to_ms(options.get("jitter", 0), "jitter", zero=True),
        enabled=enabled,
        **_bounds(options),
    )
    task._check_arguments(args, kwargs)
    return schedule


def _bounds(options: ScheduleOptions) -> dict[str, Any]:
    """Return start, end and count, as `Schedule` has them."""
    given = {what: options.get(what) for what in ("start", "end")}
    bounds = {f"{what}_ms": None if moment is None else moment_ms(moment, what) for what, moment in given.items()}
    start_ms, end_ms = bounds.values()
    if start_ms is not None and end_ms is not None and end_ms < start_ms:
        raise ValueError(f"end={short_repr(given['end'])}: expected a time after start={short_repr(given['start'])}.")
    count = options.get("count")
    return {**bounds, "count": None if count is None else check_int(count, "count", 1, MAX_COUNT)}


def _register(schedule: Schedule) -> None:
    """Register a schedule. A reloaded module replaces its own, also those that it does not declare again."""
    for each, earlier in list(schedules.items()):
        if earlier.task.name == schedule.task.name and earlier.task.func is not schedule.task.func:
            del schedules[each]
    key = (schedule.task.connection, schedule.name)
    present = schedules.get(key)
    if present is not None and (present.task.name, present.recurrence) != (schedule.task.name, schedule.recurrence):
        raise InvalidTask(
            f"the name {schedule.name!r} is already used: {present.recurrence.text} of {present.task.name}."
        )
    schedules[key] = schedule


def _task_of(target: Any, label: str) -> Task[..., Any, Any]:
    """Return the task of the decorated object: this package's, or that of a task of Django's framework."""
    backend = target.get_backend() if hasattr(target, "get_backend") else None
    sender = getattr(backend, "sender", None)
    found = target if sender is None else sender(target)
    if not isinstance(found, Task):
        raise InvalidTask(f"{label} on {short_repr(target)}: expected a task. Write {label} above @task, not below it.")
    if found.run_after is not None:
        raise InvalidTask(f"{label} on {found.name}: a schedule determines the time; remove run_after.")
    return found


def _name(task: Task[..., Any, Any], recurrence: Recurrence, args: list[Any], kwargs: dict[str, Any]) -> str:
    """Return the default name of a schedule: the task, the times and a hash of the arguments."""
    if not args and not kwargs:
        return f"{task.name} {recurrence.text}"
    body = serialization.encode([args, dict(sorted(kwargs.items()))], "args", "kwargs")
    return f"{task.name} {recurrence.text} #{hashlib.blake2b(body, digest_size=4).hexdigest()}"
