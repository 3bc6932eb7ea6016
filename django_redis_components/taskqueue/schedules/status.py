"""The state of schedules: `schedules()`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal

from django_redis_components.core.protocol import Flow
from django_redis_components.core.units import moment_of, moment_of_ms
from django_redis_components.taskqueue.schedules.recurrence import moment_ms, parse_moment
from django_redis_components.taskqueue.schedules.schedule import Schedule, registered
from django_redis_components.taskqueue.schedules.scheduler import REGISTER_S
from django_redis_components.taskqueue.shard_clients import arun_over, over, run_over
from django_redis_components.taskqueue.shards import Shard, shards_of
from django_redis_components.taskqueue.store.scripts import LIST_SCHEDULES

#: Values of `ScheduleInfo.state`.
State = Literal["on", "off", "paused", "late", "finished", "gone", "new"]
#: Schedules of a page, and of one round trip of `schedules()`.
PAGE_SIZE, READ_SIZE = 200, 1_000
#: Seconds within which an active poller registers the schedules of its code again.
REGISTERED_S = 2 * REGISTER_S
#: Seconds after which a due time that was not enqueued is late.
LATE_S = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class ScheduleInfo:
    """The state of a schedule: from Redis, or from this process if no poller has registered it.

    Attributes:
        times: a description: ``cron 0 3 * * * (Europe/Berlin)``, ``every 300 s``.
        is_enabled: whether it is active.
        next_at: its next due time; in the past without an active poller.
        last_at: the last due time that was enqueued; None before the first.
        last_sent_at: when it was enqueued.
        last_task_id: the task of that due time; its result may have expired.
        last_task_state: of that task; None if there is none, or its record has expired.
        registered_at: when a poller last registered it; None if none has.
        state: "on", "off" (not enabled), "paused", "late" (a due time has passed without its task), "finished" (nothing
            is due any more), "gone" (not in the code of the active poller) or "new" (not registered yet; if it was
            added at run time, its task may be registered in no poller).
        paused_by, paused_at: who paused it, and when; "" and None unless it is paused.
        is_added: whether it was added at run time.
        start, end: its first and its last possible due time; None: no limit.
        count: most tasks that it sends; None: no limit.
        sent: how many it has sent, if they are limited.
        options: the options of its task that were given at run time.
    """

    name: str
    task: str
    queue_name: str
    times: str
    misfire: str
    is_enabled: bool
    next_at: datetime | None
    last_at: datetime | None
    last_sent_at: datetime | None
    last_task_id: str | None
    last_task_state: str | None
    registered_at: datetime | None
    state: State
    paused_by: str = ""
    paused_at: datetime | None = None
    is_added: bool = False
    start: datetime | None = None
    end: datetime | None = None
    count: int | None = None
    sent: int = 0
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name without the times, which a default name includes."""
        return self.name.replace(f" {self.times}", "", 1)


@dataclasses.dataclass(frozen=True, slots=True)
class ScheduleSnapshot:
    """Schedules by name, at a time of the server's clock.

    Attributes:
        total: how many there are; `schedules` may be a part of them.
        has_more: whether there are others after the last one.
    """

    at: datetime
    schedules: list[ScheduleInfo]
    total: int = 0
    has_more: bool = False


def schedules(*, using: str = "default") -> list[ScheduleInfo]:
    """Return all schedules by name: registered and added ones, and those of this process. A round trip for 1,000."""
    return run_over(using, read_schedules(using)).schedules


async def aschedules(*, using: str = "default") -> list[ScheduleInfo]:
    """See `schedules`."""
    return (await arun_over(using, read_schedules(using))).schedules


def read_schedules(using: str) -> Flow[ScheduleSnapshot]:
    """Return all schedules: registered and added ones, and those of this process that are neither."""
    parts = yield from over(shards_of(using), _read_all)
    return _with_unregistered(using, merged_schedules(parts))


def _read_all(shard: Shard) -> Flow[ScheduleSnapshot]:
    part = yield from read_part(shard, limit=READ_SIZE)
    found = list(part.schedules)
    while part.has_more:
        part = yield from read_part(shard, after=found[-1].name, limit=READ_SIZE)
        found += part.schedules
    return dataclasses.replace(part, schedules=found)


def read_first(using: str) -> Flow[ScheduleSnapshot]:
    """Return the first 1,000 schedules by name, and those of this process that are not registered. One round trip."""
    parts = yield from over(shards_of(using), lambda shard: read_part(shard, limit=READ_SIZE))
    return _with_unregistered(using, merged_schedules(parts))


def merged_schedules(parts: Sequence[ScheduleSnapshot]) -> ScheduleSnapshot:
    """Return the schedules of several shards. Of one that was in another before, the one that is not gone counts.

    The total counts schedules twice that two shards have and that are not among these.
    """
    if len(parts) == 1:
        return parts[0]
    found: dict[str, ScheduleInfo] = {}
    for info in (info for part in parts for info in part.schedules):
        if info.name not in found or found[info.name].state == "gone":
            found[info.name] = info
    repeated = sum(len(part.schedules) for part in parts) - len(found)
    total = sum(part.total for part in parts) - repeated
    return ScheduleSnapshot(parts[0].at, _sorted(list(found.values())), total, any(part.has_more for part in parts))


def read_registered(shard: Shard) -> Flow[ScheduleSnapshot]:
    """Return the schedules that were registered last, up to 200, by name."""
    found = yield from _read(shard, limit=PAGE_SIZE, order="registered")
    return dataclasses.replace(found, schedules=_sorted(found.schedules))


def read_part(shard: Shard, *, part: str = "", after: str = "", limit: int = PAGE_SIZE) -> Flow[ScheduleSnapshot]:
    """Return registered and added schedules by name.

    Args:
        part: only names that have this part; ASCII letters match in either case.
        after: only names after this one.
        limit: the most schedules.
    """
    lower, last = part.encode(errors="replace").lower(), after.encode(errors="replace")
    found = yield from _read(shard, lower, last, limit=limit, order="name")
    return found


def _with_unregistered(using: str, found: ScheduleSnapshot) -> ScheduleSnapshot:
    names = {info.name for info in found.schedules}
    mine = [_unregistered(each, found.at) for each in registered(using) if each.name not in names]
    return ScheduleSnapshot(found.at, _sorted([*found.schedules, *mine]), found.total + len(mine))


def _read(shard: Shard, part: bytes = b"", after: bytes = b"", *, limit: int, order: str) -> Flow[ScheduleSnapshot]:
    reply = yield LIST_SCHEDULES(base=shard.base, part=part, after=after, limit=limit, order=order)
    now_us, active, total, more, rows = reply
    infos = [_info(row, now_us / 1_000, active=bool(active)) for row in rows]
    return ScheduleSnapshot(moment_of(now_us), infos, total, bool(more))


def _with_changes(info: ScheduleInfo, pause: bytes, *, is_added: bool) -> ScheduleInfo:
    """Return the state of a schedule with what was changed at run time."""
    if not pause:
        return dataclasses.replace(info, is_added=is_added)
    since, _, author = pause.decode(errors="replace").partition(" ")
    return dataclasses.replace(
        info,
        is_added=is_added,
        next_at=None,
        state="paused",
        paused_by=author,
        paused_at=_moment(int(since)) if since.isdecimal() and len(since) < 15 else None,
    )


def _sorted(infos: list[ScheduleInfo]) -> list[ScheduleInfo]:
    return sorted(infos, key=lambda info: info.name)


def _info(row: Any, now_ms: float, *, active: bool) -> ScheduleInfo:
    *registration, pause, definition, sent = row
    if registration[1]:
        info = _registered(registration, now_ms, active=active)
    else:
        info = _added(registration[0].decode(errors="replace"), definition)
    return dataclasses.replace(_with_changes(info, pause, is_added=bool(definition)), sent=sent)


def _registered(row: Any, now_ms: float, *, active: bool) -> ScheduleInfo:
    name, registered_ms, times, last_ms, next_ms, fired_us, task_id, text, queue, state, due_ms = row
    info = _parse_info(text)
    is_enabled = bool(info.get("enabled", True))
    gone = active and now_ms - registered_ms > REGISTERED_S * 1_000
    at_ms = info.get("at")
    if not next_ms and isinstance(at_ms, int) and at_ms > last_ms:
        next_ms = at_ms
    late = 0 < next_ms < now_ms - LATE_S * 1_000
    return ScheduleInfo(
        name=name.decode(errors="replace"),
        task=str(info.get("task", "")),
        queue_name=str(info.get("queue", "")),
        times=times.decode(errors="replace"),
        misfire=str(info.get("misfire", "")),
        is_enabled=is_enabled,
        next_at=_moment(next_ms),
        last_at=_moment(last_ms) if fired_us else None,
        last_sent_at=_moment(fired_us / 1_000),
        last_task_id=task_id.decode() or None,
        last_task_state=_task_state(state.decode(errors="replace"), due_ms, now_ms) if queue else None,
        registered_at=_moment(registered_ms),
        state="gone" if gone else "off" if not is_enabled else "late" if late else "on" if next_ms else "finished",
        **_limits(info, _known_moment),
    )


def _limits(info: dict[str, Any], moment: Callable[[Any], datetime | None]) -> dict[str, Any]:
    """Return the fields that limit a schedule, and the options of its task."""
    count, options = info.get("count"), info.get("options")
    return {
        "start": moment(info.get("start")),
        "end": moment(info.get("end")),
        "count": count if isinstance(count, int) else None,
        "options": options if isinstance(options, dict) else {},
    }


def _known_moment(ms: Any) -> datetime | None:
    return _moment(ms) if isinstance(ms, int) and abs(ms) < 10**14 else None


def _parsed_moment(text: Any) -> datetime | None:
    try:
        return moment_of_ms(moment_ms(parse_moment(text, "moment"), "moment"))
    except (TypeError, ValueError):
        return None


def _unregistered(schedule: Schedule, now: datetime) -> ScheduleInfo:
    next_ms = schedule.following(round(now.timestamp() * 1_000)) or 0
    return ScheduleInfo(
        name=schedule.name,
        task=schedule.task.name,
        queue_name=schedule.task.options.queue_name,
        times=schedule.recurrence.text,
        misfire=schedule.misfire,
        is_enabled=schedule.enabled,
        next_at=_moment(next_ms) if schedule.enabled else None,
        last_at=None,
        last_sent_at=None,
        last_task_id=None,
        last_task_state=None,
        registered_at=None,
        state="new",
        start=_known_moment(schedule.start_ms),
        end=_known_moment(schedule.end_ms),
        count=schedule.count,
    )


def _added(name: str, definition: bytes) -> ScheduleInfo:
    """Return the state of a schedule that was added at run time, and that no poller has registered."""
    data = _parse_info(definition)
    if isinstance(data.get("every"), int | float):
        times = f"every {data['every']:g} s"
    else:
        times = f"at {data['at']}" if "at" in data else f"cron {data.get('cron')}"
    options = data.get("options")
    return ScheduleInfo(
        name=name,
        task=str(data.get("task", "")),
        queue_name=str(options.get("queue_name", "")) if isinstance(options, dict) else "",
        times=times,
        misfire=str(data.get("misfire", "")),
        is_enabled=True,
        next_at=None,
        last_at=None,
        last_sent_at=None,
        last_task_id=None,
        last_task_state=None,
        registered_at=None,
        state="new",
        **_limits(data, _parsed_moment),
    )


def _task_state(state: str, due_ms: bytes, now_ms: float) -> str:
    """Return the state of a task; a record has none while it is ready or scheduled."""
    if state not in ("", "scheduled"):
        return state
    return "scheduled" if due_ms.isdigit() and int(due_ms) > now_ms else "ready"


def _parse_info(encoded: bytes) -> dict[str, Any]:
    try:
        info = json.loads(encoded)
    except (ValueError, RecursionError):  # the key was written by another program
        return {}
    return info if isinstance(info, dict) else {}


def _moment(ms: float) -> datetime | None:
    return moment_of(int(ms * 1_000)) if ms else None
