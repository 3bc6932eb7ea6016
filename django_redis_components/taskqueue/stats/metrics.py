"""What a queue has done: counters and times of its latest minutes and hours, by task name too, and its errors.

The scripts that settle tasks write them; see ``lua/shared/tally.lua``. A set of counters is a string of 104
unsigned 32-bit numbers: 8 events, 48 buckets of waiting, 48 of running.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from django_redis_components.core.protocol import Batch, Call, Flow
from django_redis_components.taskqueue.stats.histogram import BUCKETS, Spread
from django_redis_components.taskqueue.store.fields import base_key
from django_redis_components.taskqueue.store.scripts import READ_COUNTERS, TASK_COUNTERS

#: Minutes and hours that are kept; older ones cannot be asked for.
MAX_MINUTES, MAX_HOURS = 180, 336
#: Most queues whose counters are read at once.
MAX_QUEUES = 50
#: Seconds in a step, by its name in the keys.
STEPS_S = {"min": 60, "hour": 3_600}
#: The events that are counted, in the order of their counters.
EVENTS = ("succeeded", "failed", "retried", "put_off", "recovered", "cancelled", "expired", "unregistered")
#: Counters in one set.
SIZE = len(EVENTS) + 2 * BUCKETS


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """How often what happened.

    Attributes:
        succeeded, failed: tasks that have finished; failed ones will not be tried again.
        retried: runs that raised and are tried again.
        put_off: runs that ended with the wish to come back later.
        recovered: runs whose worker died, or lost its lease.
        cancelled, expired: tasks that finished without having run.
        unregistered: tasks whose name the worker did not know.
    """

    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    put_off: int = 0
    recovered: int = 0
    cancelled: int = 0
    expired: int = 0
    unregistered: int = 0

    @property
    def finished(self) -> int:
        """Tasks that have run for the last time."""
        return self.succeeded + self.failed


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """One minute, or hour, from `at` on."""

    at: datetime
    counts: Counts


@dataclasses.dataclass(frozen=True, slots=True)
class TaskMetrics:
    """One task's share. `name` is "" for all tasks beyond the first 30 names of an hour."""

    name: str
    totals: Counts
    waited: Spread
    ran: Spread


@dataclasses.dataclass(frozen=True, slots=True)
class Metrics:
    """What a queue has done lately, on the server's clock.

    Attributes:
        at: when it was read.
        step_s: seconds of each span.
        spans: oldest first, empty ones too; the last one has not ended.
        totals: all spans together.
        waited: from being ready (sent, fallen due, or handed back) to a worker's lease.
        ran: the function, from its begin to its end.
        tasks: by task name, busiest first; minutes only.
    """

    queue: str
    at: datetime
    step_s: int
    spans: list[Span]
    totals: Counts
    waited: Spread
    ran: Spread
    tasks: list[TaskMetrics]

    def per_minute(self) -> float:
        """Tasks finished in a minute, on the average of the spans; the time that has passed of the last one counts."""
        since_s = self.at.timestamp() - self.spans[0].at.timestamp()
        return self.totals.finished * 60 / max(since_s, 1.0)


class Counters:
    """A set of counters that others are added to."""

    def __init__(self) -> None:
        self._numbers = [0] * SIZE

    def add(self, data: bytes, at: int = 0) -> None:
        """Add the set at that position of a string; what the string lacks is zero."""
        for index, number in enumerate(numbers_of(data, at)):
            if number:
                self._numbers[index] += number

    def add_others(self, others: Iterable[Counters], sign: int) -> None:
        """Add, or take away, other sets."""
        for other in others:
            self._numbers = [
                max(0, mine + sign * theirs)  # counters that have stopped at their highest value do not add up
                for mine, theirs in zip(self._numbers, other._numbers, strict=True)
            ]

    def counts(self) -> Counts:
        """The events."""
        return Counts(*self._numbers[: len(EVENTS)])

    def waited(self) -> Spread:
        """The times of waiting."""
        return Spread(tuple(self._numbers[len(EVENTS) : len(EVENTS) + BUCKETS]))

    def ran(self) -> Spread:
        """The times of running."""
        return Spread(tuple(self._numbers[len(EVENTS) + BUCKETS :]))


def numbers_of(data: bytes, at: int = 0) -> tuple[int, ...]:
    """The numbers of the set at that position, as many as the string has."""
    part = data[at * SIZE * 4 : (at + 1) * SIZE * 4]
    return struct.unpack_from(f">{len(part) // 4}I", part)


def minutes(queue: str, count: int) -> Flow[Metrics]:
    """The latest minutes of a queue, with its tasks by name, in one round trip."""
    base = base_key()
    (now_us, [row]), pieces = yield Batch(
        [READ_COUNTERS(base=base, step="min", count=count, whole=count, queues=(queue,)), _breakdown(queue, count)]
    )
    return dataclasses.replace(_metrics(row, now_us, "min", count), tasks=_tasks(pieces))


def hours(queue: str, count: int) -> Flow[Metrics]:
    """The latest hours of a queue."""
    now_us, [row] = yield READ_COUNTERS(base=base_key(), step="hour", count=count, whole=count, queues=(queue,))
    return _metrics(row, now_us, "hour", count)


def lately(queues: Sequence[str], count: int) -> Flow[dict[str, Metrics]]:
    """The latest minutes of these queues, the first 50 of them, by queue; not by task."""
    asked = queues[:MAX_QUEUES]
    return measured((yield measuring(asked, count)), count)


def measuring(queues: Sequence[str | bytes], count: int) -> Call:
    """The request for the latest minutes of some queues; `measured` reads its reply."""
    return READ_COUNTERS(base=base_key(), step="min", count=count, whole=count, queues=queues)


def measured(reply: Any, count: int) -> dict[str, Metrics]:
    """What `measuring` was answered, by queue."""
    now_us, rows = reply
    return {row[0].decode(): _metrics(row, now_us, "min", count) for row in rows}


def _breakdown(queue: str, count: int) -> Call:
    return TASK_COUNTERS(base=base_key(), queue=queue, count=count)


def _metrics(row: Sequence[Any], now_us: int, step: str, count: int) -> Metrics:
    step_s = STEPS_S[step]
    latest = now_us // 1_000_000 // step_s
    found = dict(zip(row[1::2], row[2::2], strict=True))
    together = Counters()
    spans = []
    for ago in range(count - 1, -1, -1):
        data = found.get(ago, b"")
        together.add(data)
        counts = Counts(*numbers_of(data)[: len(EVENTS)]) if data else Counts()
        spans.append(Span(datetime.fromtimestamp((latest - ago) * step_s, UTC), counts))
    at = datetime.fromtimestamp(now_us / 1e6, UTC)
    totals, waited, ran = together.counts(), together.waited(), together.ran()
    return Metrics(row[0].decode(), at, step_s, spans, totals, waited, ran, [])


def _tasks(pieces: Any) -> list[TaskMetrics]:
    """Names have other slots in another hour: the sets of one name are added up."""
    slots = {hour: _names(names) for hour, names in _pairs(pieces[0])}
    found: dict[str, Counters] = {}
    rest = Counters()
    for hour, data in _pairs(pieces[1]):
        rest.add(data)
        for slot, name in slots[hour].items():
            found.setdefault(name, Counters()).add(data, slot)
    rest.add_others(found.values(), -1)
    found[""] = rest
    tasks = [TaskMetrics(name, each.counts(), each.waited(), each.ran()) for name, each in found.items()]
    tasks = [each for each in tasks if any(dataclasses.astuple(each.totals))]
    return sorted(tasks, key=lambda each: (not each.name, -each.totals.finished, each.name))


def _names(flat: Sequence[bytes]) -> dict[int, str]:
    return {int(slot): name.decode() for name, slot in _pairs(flat)}


def _pairs(flat: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(flat[::2], flat[1::2], strict=True)
