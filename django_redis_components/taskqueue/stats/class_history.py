"""History of one task name in all queues, by hour.

The poller adds each hour that has ended, name by name; a run costs nothing more. The hours that it has not added yet
are read from the minutes of the queues, which are kept for 3 hours.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.protocol import Flow
from django_redis_components.core.text import encodable
from django_redis_components.core.units import moment_of
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats.history import History, HistoryInterval
from django_redis_components.taskqueue.stats.metrics import MAX_MINUTES, CounterSet
from django_redis_components.taskqueue.stats.task_class import TaskClass
from django_redis_components.taskqueue.store.scripts import CLASS_HOURS

#: Hours of the ranges by name.
CLASS_RANGES = {"3d": 72, "7d": 168}
_HOUR_US = 3_600_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class ClassHours:
    """What the poller has added.

    Attributes:
        rolled: the latest hour of which it has added all queues, as hours since the epoch; 0 without one.
        counters: by hour; none later than `rolled`.
    """

    rolled: int
    counters: Mapping[int, CounterSet]


def read_hours(shard: Shard, name: str, range_name: str) -> Flow[ClassHours]:
    """Read the hours of a task name that the poller has added, in one request."""
    _, rolled, rows = yield CLASS_HOURS(base=shard.base, name=encodable(name), count=CLASS_RANGES[range_name])
    found: dict[int, CounterSet] = {}
    for hour, data in pairs_of(rows):
        found.setdefault(hour, CounterSet()).add(data)
    return ClassHours(rolled, found)


def counters_by_hour(task: TaskClass, hours: ClassHours, range_name: str) -> dict[int, CounterSet]:
    """Return the counters of each hour of a range, as hours since the epoch, oldest first, including empty ones."""
    latest = int(task.at.timestamp()) // 3_600
    found = {hour: CounterSet() for hour in range(latest - CLASS_RANGES[range_name] + 1, latest + 1)}
    for hour, counters in hours.counters.items():
        if hour in found:
            found[hour].merge(counters)
    for minute, counters in task.minutes.items():
        if minute // 60 > hours.rolled:
            found[minute // 60].merge(counters)
    return found


def class_history(task: TaskClass, hours: ClassHours, range_name: str) -> History:
    """Return a range of the history of a task name."""
    found = counters_by_hour(task, hours, range_name)
    total = CounterSet()
    for counters in found.values():
        total.merge(counters)
    first_of_minutes = -(-(int(task.at.timestamp()) // 60 - MAX_MINUTES + 1) // 60)
    start = max(hours.rolled + 1, min(found))
    return History(
        range=range_name,
        at=task.at,
        step=3_600,
        intervals=[
            HistoryInterval(moment_of(hour * _HOUR_US), each.counts(), each.wait_time(), each.run_time())
            for hour, each in found.items()
        ],
        totals=total.counts(),
        wait_time=total.wait_time(),
        run_time=total.run_time(),
        missing=(moment_of(start * _HOUR_US), moment_of(first_of_minutes * _HOUR_US))
        if start < first_of_minutes
        else None,
    )
