"""The state of schedules: `schedules()`."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime
from typing import Any, Literal

from django_redis_components.core.protocol import Flow
from django_redis_components.core.units import moment_of
from django_redis_components.taskqueue.schedules.schedule import Schedule, registered
from django_redis_components.taskqueue.schedules.scheduler import REGISTER_S
from django_redis_components.taskqueue.shards import Shard, home
from django_redis_components.taskqueue.store.scripts import LIST_SCHEDULES

#: Values of `ScheduleInfo.state`.
State = Literal["on", "off", "paused", "late", "gone", "new"]
#: Maximum schedules of one read.
MAX_SCHEDULES = 200
#: Seconds within which an active poller registers the schedules of its code again.
REGISTERED_S = 2 * REGISTER_S
#: Seconds after which a due time that was not enqueued is late.
LATE_S = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class ScheduleInfo:
    """The state of a schedule: from Redis, or from this process if no poller has registered it.

    Attributes:
        times: a description: ``cron 0 3 * * * (Europe/Berlin)``, ``every 300 s``.
        enabled: whether it is active.
        next_at: its next due time; in the past without an active poller.
        last_at: the last due time that was enqueued; None before the first.
        last_sent_at: when it was enqueued.
        last_task_id: the task of that due time; its result may have expired.
        last_task_state: of that task; None if there is none, or its record has expired.
        registered_at: when a poller last registered it; None if none has.
        state: "on", "off" (not enabled), "paused", "late" (a due time has passed without its task), "gone" (not in the
            code of the active poller) or "new" (not registered yet; if it was added at run time, no poller may know
            its task).
        paused_by, paused_at: who paused it, and when; "" and None unless it is paused.
        is_added: whether it was added at run time.
    """

    name: str
    task: str
    queue_name: str
    times: str
    misfire: str
    enabled: bool
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

    @property
    def label(self) -> str:
        """The name without the times, which a default name includes."""
        return self.name.replace(f" {self.times}", "", 1)


@dataclasses.dataclass(frozen=True, slots=True)
class ScheduleSnapshot:
    """Schedules by name, at a time of the server's clock."""

    at: datetime
    schedules: list[ScheduleInfo]


def schedules(*, using: str = "default") -> list[ScheduleInfo]:
    """Return schedules by name: up to 200 that pollers have registered, and those of this process. One round trip."""
    return home(using).run(read_schedules(using)).schedules


async def aschedules(*, using: str = "default") -> list[ScheduleInfo]:
    """See `schedules`."""
    return (await home(using).arun(read_schedules(using))).schedules


def read_schedules(using: str) -> Flow[ScheduleSnapshot]:
    """Return registered schedules, and those of this process that are not registered."""
    found = yield from read_registered(home(using))
    names = {info.name for info in found.schedules}
    mine = [_unregistered(each, found.at) for each in registered(using) if each.name not in names]
    return ScheduleSnapshot(found.at, _sorted([*found.schedules, *mine]))


def read_registered(shard: Shard) -> Flow[ScheduleSnapshot]:
    """Return registered schedules."""
    now_us, active, rows, paused, added = yield LIST_SCHEDULES(base=shard.base, limit=MAX_SCHEDULES)
    at = moment_of(now_us)
    pauses, definitions = _pairs(paused), _pairs(added)
    infos = [_info(row, now_us / 1_000, active=bool(active)) for row in rows]
    names = {info.name for info in infos}
    infos += [_added(name, text) for name, text in definitions.items() if name not in names][:MAX_SCHEDULES]
    return ScheduleSnapshot(at, _sorted([_with_changes(info, pauses, definitions) for info in infos]))


def _with_changes(info: ScheduleInfo, pauses: dict[str, bytes], definitions: dict[str, bytes]) -> ScheduleInfo:
    """Return the state of a schedule with what was changed at run time."""
    is_added = info.name in definitions
    if info.name not in pauses:
        return dataclasses.replace(info, is_added=is_added)
    since, _, author = pauses[info.name].decode(errors="replace").partition(" ")
    return dataclasses.replace(
        info,
        is_added=is_added,
        next_at=None,
        state="paused",
        paused_by=author,
        paused_at=_moment(int(since)) if since.isdigit() and len(since) < 15 else None,
    )


def _pairs(pairs: list[bytes]) -> dict[str, bytes]:
    names = (name.decode(errors="replace") for name in pairs[::2])
    return dict(zip(names, pairs[1::2], strict=True))


def _sorted(infos: list[ScheduleInfo]) -> list[ScheduleInfo]:
    return sorted(infos, key=lambda info: info.name)


def _info(row: Any, now_ms: float, *, active: bool) -> ScheduleInfo:
    name, registered_ms, times, last_ms, next_ms, fired_us, task_id, text, queue, state, due_ms = row
    info = _parse_info(text)
    enabled = bool(info.get("enabled", True))
    gone = active and now_ms - registered_ms > REGISTERED_S * 1_000
    late = 0 < next_ms < now_ms - LATE_S * 1_000
    return ScheduleInfo(
        name=name.decode(),
        task=str(info.get("task", "")),
        queue_name=str(info.get("queue", "")),
        times=times.decode(),
        misfire=str(info.get("misfire", "")),
        enabled=enabled,
        next_at=_moment(next_ms),
        last_at=_moment(last_ms) if fired_us else None,
        last_sent_at=_moment(fired_us / 1_000),
        last_task_id=task_id.decode() or None,
        last_task_state=_task_state(state.decode(errors="replace"), due_ms, now_ms) if queue else None,
        registered_at=_moment(registered_ms),
        state="gone" if gone else "off" if not enabled else "late" if late else "on",
    )


def _unregistered(schedule: Schedule, now: datetime) -> ScheduleInfo:
    next_ms = schedule.recurrence.following(round(now.timestamp() * 1_000)) or 0
    return ScheduleInfo(
        name=schedule.name,
        task=schedule.task.name,
        queue_name=schedule.task.options.queue_name,
        times=schedule.recurrence.text,
        misfire=schedule.misfire,
        enabled=schedule.enabled,
        next_at=_moment(next_ms) if schedule.enabled else None,
        last_at=None,
        last_sent_at=None,
        last_task_id=None,
        last_task_state=None,
        registered_at=None,
        state="new",
    )


def _added(name: str, definition: bytes) -> ScheduleInfo:
    """Return the state of a schedule that was added at run time, and that no poller has registered."""
    data = _parse_info(definition)
    times = f"every {data['every']:g} s" if isinstance(data.get("every"), int | float) else f"cron {data.get('cron')}"
    return ScheduleInfo(
        name=name,
        task=str(data.get("task", "")),
        queue_name="",
        times=times,
        misfire=str(data.get("misfire", "")),
        enabled=True,
        next_at=None,
        last_at=None,
        last_sent_at=None,
        last_task_id=None,
        last_task_state=None,
        registered_at=None,
        state="new",
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
