"""The scheduler of a poller: it computes the next due time of each schedule and enqueues the tasks that are due.

Redis stores the last due time of each schedule, and the server's clock decides whether the next has come. A poller
that takes over continues after the last due time.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core.chunks import chunks
from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.names import stored_name
from django_redis_components.core.protocol import Call
from django_redis_components.taskqueue import failpoints
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.outage_log import accepts_no_writes, is_error_reply
from django_redis_components.taskqueue.schedules import definitions
from django_redis_components.taskqueue.schedules.earlier_shards import copy_states
from django_redis_components.taskqueue.schedules.recurrence import OneTime
from django_redis_components.taskqueue.schedules.schedule import Schedule
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store.control import new_op
from django_redis_components.taskqueue.store.scripts import (
    CHANGE_SCHEDULE,
    ENQUEUE_DUE,
    READ_CHANGES,
    REGISTER_SCHEDULES,
)

#: TTL of a schedule that is no longer in the code, in milliseconds.
KEEP_MS = 86_400_000
#: Seconds between two registrations by the same poller.
REGISTER_S = 60.0
#: Microseconds by which the server's clock may go back before the due times are read again.
STEP_BACK_US = 60_000_000
#: Maximum schedules of one registration, and tasks of one round trip.
CHUNK = 100
#: Milliseconds of delay from which a warning is logged; a standby needs 6 s to notice a dead poller.
LATE_MS = 10_000
#: Reply of enqueue_due.lua: the schedule has sent as many tasks as it may.
COMPLETE = 4


class Scheduler:
    """The schedules of one poller."""

    def __init__(self, shard: Shard, client: SyncClient, poller: str, schedules: Sequence[Schedule]) -> None:
        """Args: poller: the id of the poller."""
        self._shard = shard
        self._client = client
        self._poller = poller
        #: Those of the code, and all: with those that were added at run time.
        self._declared = self._schedules = tuple(schedules)
        #: Version of the changes at run time that `_schedules` has.
        self._version = 0
        self._last_ms: dict[str, int] = {}
        self._next_ms: dict[str, int | None] = {}
        self._times = NextTimes()
        #: Definitions of the added schedules, and what they are, by name.
        self._parsed: dict[str, tuple[bytes, Schedule]] = {}
        #: Names of those that have continued from other shards.
        self._continued: set[str] = set()
        self._register_at = 0.0
        self._seen_us = 0

    def invalidate(self) -> None:
        """Read the last due times again: another poller may have been active."""
        self._register_at = 0.0

    def run_due(self, now_us: int, version: int) -> float:
        """Enqueue the tasks that are due, in the active poller; return the seconds until the next due time.

        Args:
            now_us: the server's clock, read recently.
            version: of the changes at run time.
        """
        started, now_ms = time.monotonic(), now_us // 1_000
        if now_us < self._seen_us - STEP_BACK_US or version != self._version:
            self.invalidate()
        self._seen_us = now_us
        if started >= self._register_at:
            self._register(now_ms)
        self._enqueue_due(now_ms)
        times = [next_ms for next_ms in self._next_ms.values() if next_ms is not None]
        until_s = (min(times) - now_us / 1_000) / 1_000 if times else float("inf")
        return max(0.0, until_s - (time.monotonic() - started))

    def _register(self, now_ms: int) -> None:
        self._read_changes()
        new = [schedule for schedule in self._schedules if schedule.name not in self._continued]
        if copy_states(self._shard, new):
            self._continued.update(schedule.name for schedule in new)
        self._last_ms, self._next_ms = {}, {}
        self._times.keep(self._schedules)
        # Without schedules too, so that removed ones expire; and in the last call, when all others are registered.
        starts = range(0, max(1, len(self._schedules)), CHUNK)
        for start in starts:
            chunk = self._schedules[start : start + CHUNK]
            rows = [part for schedule in chunk for part in self._row(schedule, now_ms)]
            keep_ms = KEEP_MS if start == starts[-1] else 0
            states = self._client.execute(
                REGISTER_SCHEDULES(
                    base=self._shard.base, poller=self._poller, keep_ms=keep_ms, version=self._version, rows=rows
                )
            )
            # Empty if another poller is active, or if there are later changes: the next round reads them.
            for schedule, last_ms, sent in zip(chunk, states[::2], states[1::2], strict=False):
                self._record_state(schedule, last_ms, sent, now_ms)
        self._register_at = time.monotonic() + REGISTER_S

    def _record_state(self, schedule: Schedule, last_ms: int, sent: int, now_ms: int) -> None:
        """Compute the next due time of a schedule; remove an added one that has none since a day."""
        self._last_ms[schedule.name] = last_ms
        is_complete = schedule.count is not None and sent >= schedule.count
        next_ms = None if is_complete or not schedule.is_active else self._times.following(schedule, last_ms)
        self._next_ms[schedule.name] = next_ms
        is_over = self._times.following(schedule, now_ms) is None and not schedule.due(last_ms, now_ms)
        ended_ms = last_ms if is_complete else max(last_ms, schedule.last_possible_ms or 0)
        added = self._parsed.get(schedule.name)
        if (is_complete or is_over) and schedule.is_active and added and ended_ms < now_ms - KEEP_MS:
            self._client.execute(
                CHANGE_SCHEDULE(
                    base=self._shard.base, verb="discard", name=schedule.name, value=added[0], times="", op=new_op()
                )
            )

    def _read_changes(self) -> None:
        self._version, paused, added = self._client.execute(READ_CHANGES(base=self._shard.base))
        names = {stored_name(name) for name in paused}
        self._schedules = tuple(
            dataclasses.replace(schedule, is_paused=True) if schedule.name in names else schedule
            for schedule in [*self._declared, *self._added(added)]
        )

    def _added(self, added: Sequence[bytes]) -> Iterator[Schedule]:
        """Yield the schedules that were added at run time. One that cannot be sent must not stop the others."""
        declared = {schedule.name for schedule in self._declared}
        earlier, self._parsed = self._parsed, {}
        for name, text in zip(added[::2], added[1::2], strict=True):
            try:
                key = name.decode()
                known = earlier.get(key)
                schedule = known[1] if known and known[0] == text else definitions.parse(key, text)
            except ValueError as exc:
                logger.warning("The added schedule %s is not sent: %s", name.decode(errors="replace"), exc)
                continue
            self._parsed[key] = text, schedule
            if schedule.name in declared:
                logger.warning("The added schedule %s is not sent: the code declares this name.", schedule.name)
                continue
            yield schedule

    def _enqueue_due(self, now_ms: int) -> None:
        calls: list[tuple[Schedule, int, Call]] = []
        for schedule in self._schedules:
            next_ms = self._next_ms.get(schedule.name)
            if next_ms is not None and next_ms <= now_ms:
                calls += self._calls(schedule, now_ms)
                self._next_ms[schedule.name] = self._times.following(schedule, now_ms)
        failpoints.reach("before_fire")
        for chunk in chunks(calls, CHUNK):
            replies = self._client.execute_many([call for _, _, call in chunk])
            for (schedule, due_ms, _), reply in zip(chunk, replies, strict=True):
                self._record_reply(schedule, due_ms, reply, now_ms)
        failpoints.reach("after_fire")

    def _calls(self, schedule: Schedule, now_ms: int) -> list[tuple[Schedule, int, Call]]:
        """Return the calls for due times. An error of one schedule must not stop the others or the poller."""
        try:
            next_ms = self._times.following(schedule, now_ms) or 0
            return [
                (schedule, due_ms, self._call(schedule, due_ms, next_ms))
                for due_ms in schedule.due(self._last_ms[schedule.name], now_ms)
            ]
        except BaseException:  # of middleware, for example: SystemExit would end each poller at each due time
            logger.exception("Cannot enqueue schedule %s.", schedule.name)
            return []

    def _call(self, schedule: Schedule, due_ms: int, next_ms: int) -> Call:
        return ENQUEUE_DUE(
            base=self._shard.base,
            poller=self._poller,
            name=schedule.name,
            due_ms=due_ms,
            next_ms=next_ms,
            count=schedule.count or 0,
            rest=schedule.message(due_ms).arguments,
        )

    def _record_reply(self, schedule: Schedule, due_ms: int, reply: Any, now_ms: int) -> None:
        if isinstance(reply, RedisError):
            if not is_error_reply(reply) or accepts_no_writes(reply):
                raise reply
            # Of this task alone, for example a key of another type. It is tried again at the next due time or
            # registration. Raised, it would stop the other schedules and, as an outage, the recovery of tasks.
            logger.error("Cannot enqueue schedule %s: Redis rejected it (%s).", schedule.name, reply)
            return
        code, last_ms = reply
        self._last_ms[schedule.name] = last_ms
        if code == COMPLETE:
            self._next_ms[schedule.name] = None
        elif code < 0:  # another poller is active, or the server's clock was set back
            self.invalidate()
        elif code and now_ms - due_ms > LATE_MS:
            late_s = (now_ms - due_ms) / 1_000
            logger.warning("Schedule %s: enqueued %.0f s late (misfire=%r).", schedule.name, late_s, schedule.misfire)

    def _row(self, schedule: Schedule, now_ms: int) -> tuple[str | int, ...]:
        """Return the row of a schedule for register_schedules.lua."""
        next_ms = (self._times.following(schedule, now_ms) or 0) if schedule.is_active else 0
        text, info = schedule.recurrence.text, json.dumps(describe(schedule))
        return schedule.name, int(schedule.is_active), text, next_ms, info, schedule.count or 0


class NextTimes:
    """The next due times that were computed: the search for that of a cron expression is slow for thousands."""

    def __init__(self) -> None:
        #: The schedule, a time, and the first due time after it, by name.
        self._found: dict[str, tuple[Schedule, int, int | None]] = {}

    def keep(self, schedules: Sequence[Schedule]) -> None:
        """Forget those of other schedules."""
        names = {schedule.name for schedule in schedules}
        self._found = {name: found for name, found in self._found.items() if name in names}

    def following(self, schedule: Schedule, after_ms: int) -> int | None:
        """See `Schedule.following`."""
        known = self._found.get(schedule.name)
        if known:
            (same, from_ms, next_ms) = known
            is_same = same is schedule or _has_times_of(same, schedule)
            if is_same and from_ms <= after_ms and (next_ms is None or after_ms < next_ms):
                return next_ms
        next_ms = schedule.following(after_ms)
        self._found[schedule.name] = schedule, after_ms, next_ms
        return next_ms


def _has_times_of(one: Schedule, other: Schedule) -> bool:
    return (one.recurrence, one.start_ms, one.end_ms) == (other.recurrence, other.start_ms, other.end_ms)


def describe(schedule: Schedule) -> dict[str, Any]:
    """Return what is stored of a schedule for `schedules()`."""
    limits = {"start": schedule.start_ms, "end": schedule.end_ms, "count": schedule.count}
    if isinstance(schedule.recurrence, OneTime) and schedule.max_age_ms is None:
        limits["at"] = schedule.recurrence.at_ms  # it is late, not finished, until it was handled
    return {
        "task": schedule.task.name,
        "queue": schedule.task.options.queue_name,
        "misfire": schedule.misfire,
        "enabled": schedule.enabled,
        **{name: value for name, value in limits.items() if value is not None},
        **({"options": schedule.task_options} if schedule.task_options else {}),
    }
