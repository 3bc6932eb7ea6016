"""How often schedules run in each of the next hours, from their descriptions; and a label for those."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from datetime import datetime

from django.utils.translation import gettext as _

from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.schedules.recurrence import CronTimes, FixedInterval
from django_redis_components.taskqueue.schedules.status import ScheduleInfo
from django_redis_components.taskqueue.stats.due import HOUR_MS

#: Most times of cron expressions that one page computes.
BUDGET = 300
_EVERY = re.compile(r"every ([0-9]+(?:\.[0-9]+)?) s")
_CRON = re.compile(r"cron (.{1,200}) \(([\w+/-]{1,60})\)")


def times_label(times: str) -> str:
    """Return the description of the times of a schedule in the active language."""
    match = _EVERY.fullmatch(times)
    return _("every %(seconds)s s") % {"seconds": match[1]} if match else times


def runs_by_hour(schedules: Sequence[ScheduleInfo], first_at: datetime, hours: int) -> tuple[list[int], int]:
    """Return the runs of all schedules that are on in each hour, and how many schedules were not counted."""
    first_ms, counts, budget, not_counted = round(first_at.timestamp() * 1_000), [0] * hours, BUDGET, 0
    for schedule in schedules:
        if schedule.state not in ("on", "late"):
            continue
        runs_of_schedule = _interval_runs(schedule.times, first_ms, hours)
        if runs_of_schedule is None:
            runs_of_schedule, budget = _cron_runs(schedule.times, first_ms, hours, budget)
        if runs_of_schedule is None:
            not_counted += 1
        else:
            counts = [count + runs for count, runs in zip(counts, runs_of_schedule, strict=True)]
    return counts, not_counted


def _interval_runs(times: str, first_ms: int, hours: int) -> list[int] | None:
    match = _EVERY.fullmatch(times)
    try:
        every_ms = FixedInterval.of(float(match[1])).every_ms if match else 0
    except InvalidTask:
        return None
    if not every_ms:
        return None
    edges = [-(-(first_ms + hour * HOUR_MS) // every_ms) for hour in range(hours + 1)]
    return [later - earlier for earlier, later in itertools.pairwise(edges)]


def _cron_runs(times: str, first_ms: int, hours: int, budget: int) -> tuple[list[int] | None, int]:
    """Return the runs by hour, None if there are too many or the description is no expression; and the budget left."""
    match = _CRON.fullmatch(times)
    try:
        recurrence = CronTimes.of(match[1], match[2]) if match else None
    except (InvalidTask, ValueError):
        return None, budget
    if recurrence is None:
        return None, budget
    counts, at_ms = [0] * hours, recurrence.following(first_ms - 1)
    while at_ms is not None and at_ms < first_ms + hours * HOUR_MS:
        if not budget:
            return None, 0
        counts[(at_ms - first_ms) // HOUR_MS] += 1
        at_ms, budget = recurrence.following(at_ms), budget - 1
    return counts, budget
