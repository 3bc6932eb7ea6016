"""`Schedules`: periodic tasks that are added, paused and removed at run time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Any, TypedDict, TypeVar, Unpack

from django_redis_components.core import keys
from django_redis_components.core.arguments import check_string, short_repr
from django_redis_components.core.protocol import Flow, Read
from django_redis_components.core.units import Seconds
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.exceptions import InvalidTask, ScheduleDoesNotExist
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.schedules import definitions
from django_redis_components.taskqueue.schedules.recurrence import (
    CronTimes,
    FixedInterval,
    OneTime,
    Recurrence,
    encode_moment,
    moment_ms,
)
from django_redis_components.taskqueue.schedules.schedule import Misfire, Schedule, schedules
from django_redis_components.taskqueue.shard_clients import arun_over, over, run_over
from django_redis_components.taskqueue.shards import Shard, shards_of
from django_redis_components.taskqueue.store.control import new_op
from django_redis_components.taskqueue.store.scripts import CHANGE_SCHEDULE
from django_redis_components.taskqueue.store.workers import author_text
from django_redis_components.taskqueue.task import Task

T = TypeVar("T")

#: Most schedules that are added at run time; added_schedule.lua has the same number.
MAX_ADDED = 10_000


class AddedOptions(TypedDict, total=False):
    """Options of `Schedules.add`."""

    every: Seconds
    cron: str
    tz: str | tzinfo | None
    at: datetime
    args: Sequence[Any]
    kwargs: dict[str, Any]
    misfire: Misfire
    max_age: Seconds | None
    jitter: Seconds
    start: datetime | None
    end: datetime | None
    count: int | None
    options: dict[str, Any]


class Schedules:
    """The schedules of a connection. A change applies within a second while a poller is active, in all processes.

    Attributes:
        using: alias of the connection.
    """

    def __init__(self, *, using: str = "default") -> None:
        self.using = using
        self._shards = shards_of(using)

    def __repr__(self) -> str:
        return f"<Schedules using={self.using!r}>"

    def add(self, name: str, task: Task[..., Any, Any], /, **options: Unpack[AddedOptions]) -> None:
        """Add a schedule, or replace an added one of this name. It is kept in Redis until it is removed.

        One without further due times is removed after a day. A schedule that is replaced has sent as many tasks as
        before: `count` includes them.

        Args:
            name: identifies it.
            task: a task of the site's code, without `using(…)`.
            options: every (seconds or timedelta, at least a second), cron (an expression) with tz, or at (a datetime:
                one run); args, kwargs, misfire, max_age, jitter, start, end and count as of `cron`; and options, a
                dict of options of the task: queue_name, priority, expires, ….

        Raises:
            InvalidTask: an option is invalid, there is no due time from now on, the code declares a schedule of this
                name, the task is not one that workers find by its name, or 10,000 schedules were added.
        """
        self._run(self._add(name, task, options))

    async def aadd(self, name: str, task: Task[..., Any, Any], /, **options: Unpack[AddedOptions]) -> None:
        """See `add`."""
        await self._arun(self._add(name, task, options))

    def remove(self, name: str) -> bool:
        """Remove a schedule that was added. Return whether it was there."""
        return self._run(self._change("remove", name))

    async def aremove(self, name: str) -> bool:
        """See `remove`."""
        return await self._arun(self._change("remove", name))

    def pause(self, name: str, *, author: str = "") -> bool:
        """Send no due times of a schedule until it is resumed. Return whether it was active.

        Args:
            author: shown on the dashboard.

        Raises:
            ScheduleDoesNotExist: no poller has registered it, and it was not added.
        """
        return self._run(self._change("pause", name, author))

    async def apause(self, name: str, *, author: str = "") -> bool:
        """See `pause`."""
        return await self._arun(self._change("pause", name, author))

    def resume(self, name: str) -> bool:
        """Send the due times from now on. Return whether it was paused."""
        return self._run(self._change("resume", name))

    async def aresume(self, name: str) -> bool:
        """See `resume`."""
        return await self._arun(self._change("resume", name))

    def run_now(self, name: str) -> TaskResult[Any]:
        """Enqueue the task of a schedule once. Its next run does not change.

        Raises:
            ScheduleDoesNotExist: the code of this process declares no such schedule, and it was not added.
            InvalidTask: it was added, and its task is not registered in this process.
        """
        schedule = self._run(self._find(name))
        result: TaskResult[Any] = schedule.task.enqueue(*schedule.args, **schedule.kwargs)
        return result

    async def arun_now(self, name: str) -> TaskResult[Any]:
        """See `run_now`."""
        schedule = await self._arun(self._find(name))
        result: TaskResult[Any] = await schedule.task.aenqueue(*schedule.args, **schedule.kwargs)
        return result

    def _add(self, name: str, task: Task[..., Any, Any], options: AddedOptions) -> Flow[None]:
        schedule, definition = check_added(self.using, name, task, options)
        code = yield from _change(schedule.shard, name, "add", definition, schedule.recurrence.text)
        if code != -2:
            yield from remove_elsewhere(schedule.shard, name)
        if code == -2:
            raise InvalidTask(f"Schedule {name!r} was not added: {MAX_ADDED:,} are. Remove those that are not needed.")

    def _find(self, name: str) -> Flow[Schedule]:
        """Return the schedule that the code declares, or the added one."""
        check_string(name, "name")
        registry.autodiscover()
        if found := schedules.get((self.using, name)):
            return found
        texts = yield from over(self._shards, lambda shard: read_definition(shard, name))
        text = next((each for each in texts if each is not None), None)
        if text is None:
            raise ScheduleDoesNotExist(name)
        try:
            return definitions.parse(name, text)
        except ValueError as exc:
            raise InvalidTask(f"Schedule {short_repr(name)}: {exc}") from exc

    def _change(self, verb: str, name: str, value: str = "") -> Flow[bool]:
        keys.validate_name(name, "name")
        author = author_text(check_string(value, "author"))
        code = max((yield from over(self._shards, lambda shard: _change(shard, name, verb, author), changes=True)))
        if code == -1:
            raise ScheduleDoesNotExist(name)
        return code == 1

    def _run(self, flow: Flow[T]) -> T:
        return run_over(self.using, flow)

    async def _arun(self, flow: Flow[T]) -> T:
        return await arun_over(self.using, flow)


def remove_elsewhere(shard: Shard, name: str) -> Flow[None]:
    """Remove an added schedule from the other shards, where it was under an earlier route of its queue."""
    for other in shards_of(shard.using):
        if other != shard:
            yield from _change(other, name, "remove", "")


def check_added(using: str, name: str, task: Task[..., Any, Any], options: AddedOptions) -> tuple[Schedule, str]:
    """Return a schedule with the definition that `Schedules.add` stores.

    Raises:
        InvalidTask: see `Schedules.add`.
    """
    try:
        schedule = _create(using, name, task, options)
        if schedule.following(time.time_ns() // 1_000_000) is None:
            raise ValueError(f"{_last_time(schedule)}: nothing is due from now on.")
        definitions.check_unsealed(schedule)
        return schedule, definitions.encode(schedule)
    except (TypeError, ValueError, InvalidTask) as exc:
        raise InvalidTask(f"Schedule {short_repr(name)}: {exc}") from exc


def read_definition(shard: Shard, name: str) -> Flow[bytes | None]:
    """Return the stored definition of an added schedule; None if there is none of this name."""
    [found] = yield Read("HMGET", shard.key(Key.added_schedules), name.encode(errors="replace"))
    return None if found is None else bytes(found)


def _create(using: str, name: str, task: Task[..., Any, Any], options: AddedOptions) -> Schedule:
    if not isinstance(task, Task):
        raise TypeError(f"{short_repr(task)}: expected a task.")
    if registry.find(task.name) is not task:
        raise ValueError(f"{task.name}: expected the task as its module has it, without using(…).")
    if task.connection != using:
        raise ValueError(f"{task.name} is a task of the connection {task.connection!r}, not of {using!r}.")
    if (using, name) in schedules:
        raise ValueError("the code declares a schedule of this name.")
    if unknown := sorted(set(options) - set(AddedOptions.__annotations__)):
        raise TypeError(f"unknown option {', '.join(unknown)}. Accepted: {', '.join(AddedOptions.__annotations__)}.")
    given: dict[str, Any] = {**options, "name": name}
    task_options = given.pop("options", {})
    return definitions.create_added(task, _pop_recurrence(given), given, task_options)


def _pop_recurrence(given: dict[str, Any]) -> Recurrence:
    """Remove the times from the options of `Schedules.add`, and return them.

    Raises:
        TypeError, ValueError, InvalidTask: they are invalid.
    """
    times = [what for what in ("every", "cron", "at") if what in given]
    if len(times) != 1:
        raise TypeError("expected one of every, cron and at.")
    [what] = times
    if what != "cron" and given.get("tz") is not None:
        raise TypeError("tz: an interval has no time zone." if what == "every" else "tz: the datetime has one.")
    value, tz = given.pop(what), given.pop("tz", None)
    if what == "at":
        if bounds := [bound for bound in ("start", "end", "count") if given.get(bound) is not None]:
            raise TypeError(f"{bounds[0]}: a schedule with one time has none.")
        return OneTime(moment_ms(value, "at"))
    return FixedInterval.of(value) if what == "every" else CronTimes.of(value, tz)


def _last_time(schedule: Schedule) -> str:
    """Return what ends a schedule without due times."""
    if isinstance(schedule.recurrence, OneTime) or schedule.end_ms is None:
        return schedule.recurrence.text
    return f"end={encode_moment(schedule.end_ms)}"


def _change(shard: Shard, name: str, verb: str, value: str, times: str = "") -> Flow[int]:
    (code,) = yield CHANGE_SCHEDULE(base=shard.base, verb=verb, name=name, value=value, times=times, op=new_op())
    return int(code)
