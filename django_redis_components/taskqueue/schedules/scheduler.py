"""The poller's clockwork: it knows the next slot of each schedule, and sends the tasks of those that have come.

Which slots were seen to stands in Redis, and whether a slot's time has come is for the server's clock to say.
A poller that takes the place goes on where the last one stopped.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core import failpoints
from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.protocol import Call
from django_redis_components.taskqueue.schedules.schedule import Schedule
from django_redis_components.taskqueue.store.fields import base_key
from django_redis_components.taskqueue.store.scripts import ENQUEUE_SLOT, REGISTER_SCHEDULES

logger = logging.getLogger("django_redis_components.taskqueue")

#: How long a schedule that has left the code is remembered, in milliseconds: a day.
KEEP_MS = 86_400_000
#: Seconds between two announcements by the same poller.
ANNOUNCE_S = 60.0
#: How far the server's clock may go back before the slots are asked for again, in microseconds.
STEP_BACK_US = 60_000_000
#: Schedules in one announcement, and tasks in one round trip.
CHUNK = 100
#: How late a task is sent before the log says so, in milliseconds; a standby needs 6 s to notice a dead poller.
LATE_MS = 10_000


class Clockwork:
    """The schedules of one poller."""

    def __init__(self, client: SyncClient, poller: str, schedules: Sequence[Schedule]) -> None:
        """Args: poller: id by which Redis knows whose place it is."""
        self._client = client
        self._poller = poller
        self._schedules = tuple(schedules)
        self._last_ms: dict[str, int] = {}
        self._next_ms: dict[str, int | None] = {}
        self._announce_at = 0.0
        self._seen_us = 0

    def distrust(self) -> None:
        """Ask again up to which slots was seen to: another poller may have been active meanwhile."""
        self._announce_at = 0.0

    def turn(self, now_us: int) -> float:
        """Send what has come, for the active poller; the value is the number of seconds until the next slot.

        Args:
            now_us: the server's clock, a moment ago.
        """
        started, now_ms = time.monotonic(), now_us // 1_000
        if now_us < self._seen_us - STEP_BACK_US:
            self.distrust()
        self._seen_us = now_us
        if started >= self._announce_at:
            self._announce(now_ms)
        self._fire(now_ms)
        times = [next_ms for next_ms in self._next_ms.values() if next_ms is not None]
        until_s = (min(times) - now_us / 1_000) / 1_000 if times else float("inf")
        return max(0.0, until_s - (time.monotonic() - started))

    def _announce(self, now_ms: int) -> None:
        self._last_ms, self._next_ms = {}, {}
        for start in range(0, max(1, len(self._schedules)), CHUNK):  # none: those that are gone shall be forgotten
            some = self._schedules[start : start + CHUNK]
            rows = [part for schedule in some for part in _row(schedule, now_ms)]
            lasts = self._client.execute(
                REGISTER_SCHEDULES(base=base_key(), poller=self._poller, keep_ms=KEEP_MS, rows=rows)
            )
            for schedule, last_ms in zip(some, lasts, strict=False):  # another poller may have come: no answer
                self._last_ms[schedule.name] = last_ms
                self._next_ms[schedule.name] = schedule.slots.following(last_ms) if schedule.enabled else None
        self._announce_at = time.monotonic() + ANNOUNCE_S

    def _fire(self, now_ms: int) -> None:
        calls: list[tuple[Schedule, int, Call]] = []
        for schedule in self._schedules:
            next_ms = self._next_ms.get(schedule.name)
            if next_ms is not None and next_ms <= now_ms:
                calls += self._calls(schedule, now_ms)
                self._next_ms[schedule.name] = schedule.slots.following(now_ms)
        failpoints.reach("before_fire")
        for start in range(0, len(calls), CHUNK):
            some = calls[start : start + CHUNK]
            replies = self._client.execute_many([call for _, _, call in some])
            for (schedule, slot_ms, _), reply in zip(some, replies, strict=True):
                self._note(schedule, slot_ms, reply, now_ms)
        failpoints.reach("after_fire")

    def _calls(self, schedule: Schedule, now_ms: int) -> list[tuple[Schedule, int, Call]]:
        """The calls that send what is due. A schedule that cannot be sent must not stop the others, or the poller."""
        try:
            next_ms = schedule.slots.following(now_ms) or 0
            return [
                (schedule, slot_ms, self._call(schedule, slot_ms, next_ms))
                for slot_ms in schedule.due(self._last_ms[schedule.name], now_ms)
            ]
        except Exception:
            logger.exception("Schedule %s cannot be sent.", schedule.name)
            return []

    def _call(self, schedule: Schedule, slot_ms: int, next_ms: int) -> Call:
        return ENQUEUE_SLOT(
            base=base_key(),
            poller=self._poller,
            name=schedule.name,
            slot_ms=slot_ms,
            next_ms=next_ms,
            rest=schedule.message(slot_ms).arguments,
        )

    def _note(self, schedule: Schedule, slot_ms: int, reply: Any, now_ms: int) -> None:
        if isinstance(reply, RedisError):
            raise reply
        code, last_ms = reply
        self._last_ms[schedule.name] = last_ms
        if code < 0:  # another poller is active, or the server's clock was set back
            self.distrust()
        elif code and now_ms - slot_ms > LATE_MS:
            late_s = (now_ms - slot_ms) / 1_000
            logger.warning("Schedule %s: sent %.0f s late (misfire=%r).", schedule.name, late_s, schedule.misfire)


def _row(schedule: Schedule, now_ms: int) -> tuple[str | int, ...]:
    """What is announced of a schedule, as announce.lua takes it."""
    next_ms = (schedule.slots.following(now_ms) or 0) if schedule.enabled else 0
    info = {
        "task": schedule.task.name,
        "queue": schedule.task.options.queue_name,
        "misfire": schedule.misfire,
        "enabled": schedule.enabled,
    }
    return schedule.name, int(schedule.enabled), schedule.slots.text, next_ms, json.dumps(info)
