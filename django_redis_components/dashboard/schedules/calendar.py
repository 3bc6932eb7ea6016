"""How often schedules run in each of the next hours, from their descriptions; and a label for those."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from datetime import datetime

from django.utils.translation import gettext as _

from django_redis_components.dashboard import formats
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.schedules.recurrence import CronTimes, FixedInterval, parse_moment
from django_redis_components.taskqueue.schedules.status import ScheduleInfo
from django_redis_components.taskqueue.stats.due import HOUR_MS

#: Most times of cron expressions that one page computes, in about 15 µs each. One that runs each minute has 1,440.
BUDGET = 3_000
#: Most expressions whose runs a process remembers: a page that is refreshed computes each of them once in an hour.
MAX_KNOWN = 1_000
_EVERY = re.compile(r"every ([0-9]+(?:\.[0-9]+)?) s")
_AT = re.compile(r"at ([0-9T:.+-]{1,40})")
_CRON = re.compile(r"cron (.{1,200}) \(([\w+/-]{1,60})\)")
_known: dict[tuple[str, int, int, int], tuple[int, ...]] = {}


def times_label(times: str) -> str:
    """Return the description of the times of a schedule in the active language."""
    if match := _EVERY.fullmatch(times):
        return _("every %(seconds)s s") % {"seconds": match[1]}
    if match := _AT.fullmatch(times):
        try:
            at = parse_moment(match[1], "at")
            return f"{formats.day_long(formats.local(at).date())} {formats.clock_short(at)}"
        except ValueError:
            return times
    return times


def runs_by_hour(schedules: Sequence[ScheduleInfo], first_at: datetime, hours: int) -> tuple[list[int], int]:
    """Return the runs of all schedules that are on in each hour, and how many schedules were not counted."""
    first_ms, counts, budget, not_counted = round(first_at.timestamp() * 1_000), [0] * hours, BUDGET, 0
    for schedule in schedules:
        if schedule.state not in ("on", "late"):
            continue
        is_one = schedule.times.startswith("at ")
        runs_of_schedule = (_one_run if is_one else _interval_runs)(schedule, first_ms, hours)
        if runs_of_schedule is None:
            runs_of_schedule, budget = _cron_runs(schedule, first_ms, hours, budget)
        if runs_of_schedule is None:
            not_counted += 1
        else:
            limited = _at_most(schedule, runs_of_schedule)
            counts = [count + runs for count, runs in zip(counts, limited, strict=True)]
    return counts, not_counted


def _one_run(schedule: ScheduleInfo, first_ms: int, hours: int) -> list[int] | None:
    at_ms = first_ms if schedule.next_at is None else max(first_ms, round(schedule.next_at.timestamp() * 1_000))
    return [int(schedule.next_at is not None and (at_ms - first_ms) // HOUR_MS == hour) for hour in range(hours)]


def _at_most(schedule: ScheduleInfo, runs: list[int]) -> list[int]:
    """Return the runs by hour of a schedule, cut off after its last task if their number is limited."""
    if schedule.count is None:
        return runs
    left, limited = max(0, schedule.count - schedule.sent), []
    for number in runs:
        limited.append(min(left, number))
        left -= limited[-1]
    return limited


def _bounds(schedule: ScheduleInfo, first_ms: int, hours: int) -> tuple[int, int]:
    """Return the first millisecond of the hours in which the schedule may run, and the one after the last."""
    start_ms, end_ms = first_ms, first_ms + hours * HOUR_MS
    if schedule.start is not None:
        start_ms = min(max(start_ms, round(schedule.start.timestamp() * 1_000)), end_ms)
    if schedule.end is not None:
        end_ms = max(min(end_ms, round(schedule.end.timestamp() * 1_000) + 1), start_ms)
    return start_ms, end_ms


def _interval_runs(schedule: ScheduleInfo, first_ms: int, hours: int) -> list[int] | None:
    match = _EVERY.fullmatch(schedule.times)
    try:
        every_ms = FixedInterval.of(float(match[1])).every_ms if match else 0
    except InvalidTask:
        return None
    if not every_ms:
        return None
    start_ms, end_ms = _bounds(schedule, first_ms, hours)
    limits = [min(max(first_ms + hour * HOUR_MS, start_ms), end_ms) for hour in range(hours + 1)]
    edges = [-(-limit_ms // every_ms) for limit_ms in limits]
    return [later - earlier for earlier, later in itertools.pairwise(edges)]


def _cron_runs(schedule: ScheduleInfo, first_ms: int, hours: int, budget: int) -> tuple[list[int] | None, int]:
    """Return the runs by hour, None if there are too many or the description is no expression; and the budget left."""
    start_ms, end_ms = _bounds(schedule, first_ms, hours)
    key = (schedule.times, first_ms, start_ms, end_ms)
    if (known := _known.get(key)) is not None:
        return list(known), budget
    match = _CRON.fullmatch(schedule.times)
    try:
        recurrence = CronTimes.of(match[1], match[2], is_stored=True) if match else None
    except (InvalidTask, ValueError):
        return None, budget
    if recurrence is None:
        return None, budget
    counts, at_ms = [0] * hours, recurrence.following(start_ms - 1)
    while at_ms is not None and at_ms < end_ms:
        if not budget:
            return None, 0
        counts[(at_ms - first_ms) // HOUR_MS] += 1
        at_ms, budget = recurrence.following(at_ms), budget - 1
    if len(_known) >= MAX_KNOWN:
        _known.clear()
    _known[key] = tuple(counts)
    return counts, budget
