"""What pollers know of the schedules, and what became of them: `schedules()`."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from typing import Any, Literal

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Flow, arun, run
from django_redis_components.taskqueue.schedules import schedule as declared
from django_redis_components.taskqueue.schedules.scheduler import ANNOUNCE_S
from django_redis_components.taskqueue.store.fields import base_key
from django_redis_components.taskqueue.store.scripts import LIST_SCHEDULES

#: What `ScheduleInfo.state` may be.
State = Literal["on", "off", "late", "gone", "new"]
#: Most schedules that are read at once.
MAX_SCHEDULES = 200
#: Seconds after which a poller that is active must have announced a schedule that its code has.
ANNOUNCED_S = 2 * ANNOUNCE_S
#: Seconds after which a slot that nobody has sent is late.
LATE_S = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class ScheduleInfo:
    """A schedule as Redis knows it; one that no poller has announced yet as this process knows it.

    Attributes:
        times: when, in words: ``cron 0 3 * * * (Europe/Berlin)``, ``every 300 s``.
        enabled: whether it fires.
        next_at: its next slot; in the past if no poller has been there.
        last_at: the last slot that was sent; None before the first.
        last_sent_at: when it was sent.
        last_task_id: the task that was sent; its result may have expired.
        announced_at: when a poller last had it in its code; None if none ever had.
        state: "on", "off" (not enabled), "late" (a slot has passed, and no poller has sent it), "gone" (not in the
            code of the poller that is active) or "new" (no poller has had it yet).
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
    announced_at: datetime | None
    state: State

    @property
    def label(self) -> str:
        """Its name without the times, which a name has that the site did not choose."""
        return self.name.replace(f" {self.times}", "", 1)


@dataclasses.dataclass(frozen=True, slots=True)
class Timetable:
    """Schedules by name, at one moment of the server's clock."""

    at: datetime
    schedules: list[ScheduleInfo]


def schedules(*, using: str = "default") -> list[ScheduleInfo]:
    """Schedules by name: those that pollers know, 200 at most, and those of this process. One round trip."""
    return run(connections.client(using), listed(using)).schedules


async def aschedules(*, using: str = "default") -> list[ScheduleInfo]:
    """See `schedules`."""
    return (await arun(connections.aclient(using), listed(using))).schedules


def listed(using: str) -> Flow[Timetable]:
    """What pollers know, and what only this process knows."""
    found = yield from known()
    names = {info.name for info in found.schedules}
    mine = [_unannounced(each, found.at) for each in declared.registered(using) if each.name not in names]
    return Timetable(found.at, _sorted([*found.schedules, *mine]))


def known() -> Flow[Timetable]:
    """What pollers know."""
    now_us, active, rows = yield LIST_SCHEDULES(base=base_key(), limit=MAX_SCHEDULES)
    infos = [_info(row, now_us / 1_000, active=bool(active)) for row in rows]
    return Timetable(datetime.fromtimestamp(now_us / 1e6, UTC), _sorted(infos))


def _sorted(infos: list[ScheduleInfo]) -> list[ScheduleInfo]:
    return sorted(infos, key=lambda info: info.name)


def _info(row: Any, now_ms: float, *, active: bool) -> ScheduleInfo:
    name, announced_ms, times, last_ms, next_ms, fired_us, task_id, text = row
    said = _said(text)
    enabled = bool(said.get("enabled", True))
    gone = active and now_ms - announced_ms > ANNOUNCED_S * 1_000
    late = 0 < next_ms < now_ms - LATE_S * 1_000
    return ScheduleInfo(
        name=name.decode(),
        task=str(said.get("task", "")),
        queue_name=str(said.get("queue", "")),
        times=times.decode(),
        misfire=str(said.get("misfire", "")),
        enabled=enabled,
        next_at=_moment(next_ms),
        last_at=_moment(last_ms) if fired_us else None,
        last_sent_at=_moment(fired_us / 1_000),
        last_task_id=task_id.decode() or None,
        announced_at=_moment(announced_ms),
        state="gone" if gone else "off" if not enabled else "late" if late else "on",
    )


def _unannounced(schedule: declared.Schedule, now: datetime) -> ScheduleInfo:
    return ScheduleInfo(
        name=schedule.name,
        task=schedule.task.name,
        queue_name=schedule.task.options.queue_name,
        times=schedule.slots.text,
        misfire=schedule.misfire,
        enabled=schedule.enabled,
        next_at=_moment(schedule.slots.following(round(now.timestamp() * 1_000)) or 0) if schedule.enabled else None,
        last_at=None,
        last_sent_at=None,
        last_task_id=None,
        announced_at=None,
        state="new",
    )


def _said(text: bytes) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):  # somebody else wrote the key
        return {}
    return said if isinstance(said, dict) else {}


def _moment(ms: float) -> datetime | None:
    return datetime.fromtimestamp(ms / 1_000, UTC) if ms else None
