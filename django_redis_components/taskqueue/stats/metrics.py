"""Metrics of queues: counters and histograms per minute and per hour, in total and by task name.

The scripts that finish tasks write them. A counter set is a string of 104 unsigned 32-bit integers: 8 outcomes, then
48 buckets of the wait time, then 48 buckets of the run time.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import struct
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.protocol import Batch, Call, Command, Flow
from django_redis_components.core.units import moment_of
from django_redis_components.taskqueue.fields import Part
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.states import OutcomeCounter
from django_redis_components.taskqueue.stats import packed_minutes
from django_redis_components.taskqueue.stats.histogram import BUCKETS, Histogram
from django_redis_components.taskqueue.store.scripts import READ_COUNTERS, TASK_COUNTERS

#: Minutes and hours that are kept.
MAX_MINUTES, MAX_HOURS = 180, 336
#: Most queues whose counters one request reads.
MAX_QUEUES = 50
#: Length of a step in seconds, by its name in the keys.
STEPS_S = {Part.minute: 60, Part.hour: 3_600}
#: Counted outcomes, and integers in one counter set.
OUTCOMES = len(OutcomeCounter)
SIZE = OUTCOMES + 2 * BUCKETS
_OUTCOMES = struct.Struct(f">{OUTCOMES}I")
_SET = struct.Struct(f">{SIZE}I")


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """Counts by outcome, in the order of `states.OutcomeCounter`.

    Attributes:
        succeeded, failed: tasks that finished; a failed one is not retried.
        retried: runs that raised and are retried.
        delayed: runs that asked to run later.
        recovered: runs whose worker crashed or lost its lease.
        cancelled, expired: tasks that finished without a run.
        unregistered: tasks whose name was not registered in the worker.
    """

    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    delayed: int = 0
    recovered: int = 0
    cancelled: int = 0
    expired: int = 0
    unregistered: int = 0

    @property
    def finished(self) -> int:
        """Tasks that succeeded or failed."""
        return self.succeeded + self.failed

    @property
    def runs(self) -> int:
        """Runs that ended by themselves."""
        return self.finished + self.retried + self.delayed


_NO_COUNTS = Counts()


@dataclasses.dataclass(frozen=True, slots=True)
class Interval:
    """One minute or hour, starting at `at`."""

    at: datetime
    counts: Counts


@dataclasses.dataclass(frozen=True, slots=True)
class TaskMetrics:
    """Metrics of one task name. `name` is "" for all tasks after the first 30 names of an hour."""

    name: str
    totals: Counts
    wait_time: Histogram
    run_time: Histogram


@dataclasses.dataclass(frozen=True, slots=True)
class Metrics:
    """Recent metrics of a queue, by the server's clock.

    Attributes:
        at: when they were read.
        step: length of an interval in seconds.
        intervals: oldest first, including empty ones; the last one is incomplete.
        totals: the sum of all intervals.
        wait_time: from ready (enqueued, due, or requeued) to the worker's lease.
        run_time: of the task function.
        tasks: by task name, most finished first; only for minutes.
        not_run: those of the failed tasks that never ran: steps of a flow behind one that failed, and tasks that were
            lost with too many workers.
    """

    queue: str
    at: datetime
    step: int
    intervals: list[Interval]
    totals: Counts
    wait_time: Histogram
    run_time: Histogram
    tasks: list[TaskMetrics]
    not_run: int = 0

    def per_minute(self) -> float:
        """Return the finished tasks per minute, averaged over the elapsed time."""
        elapsed_s = self.at.timestamp() - self.intervals[0].at.timestamp()
        return self.totals.finished * 60 / max(elapsed_s, 1.0)


class CounterSet:
    """A mutable sum of counter sets."""

    def __init__(self) -> None:
        self._numbers = [0] * SIZE

    def add(self, data: bytes, number: int = 0) -> None:
        """Add the set of this number in a string; missing integers are zero."""
        integers = _integers_of(data, number)
        self._numbers[: len(integers)] = map(operator.add, self._numbers, integers)

    def add_all(self, data: Sequence[bytes]) -> None:
        """Add the first sets of many strings."""
        sets = [_SET.unpack(each.ljust(_SET.size, b"\0")[: _SET.size]) for each in data]
        self._numbers = list(map(sum, zip(self._numbers, *sets, strict=True)))

    def merge(self, other: CounterSet) -> None:
        """Add another set."""
        self._numbers = list(map(operator.add, self._numbers, other._numbers))

    def subtract(self, others: Iterable[CounterSet]) -> None:
        """Subtract other sets."""
        for other in others:
            self._numbers = [
                max(0, mine - theirs)  # counters saturate, so parts may exceed the sum
                for mine, theirs in zip(self._numbers, other._numbers, strict=True)
            ]

    def counts(self) -> Counts:
        """Return the counts by outcome."""
        return Counts(*self._numbers[:OUTCOMES])

    def wait_time(self) -> Histogram:
        """Return the histogram of wait times."""
        return Histogram(tuple(self._numbers[OUTCOMES : OUTCOMES + BUCKETS]))

    def run_time(self) -> Histogram:
        """Return the histogram of run times."""
        return Histogram(tuple(self._numbers[OUTCOMES + BUCKETS :]))


def run_time_of(minutes: Iterable[bytes]) -> Histogram:
    """Return the sum of run times, each the last part of a counter set."""
    counters = CounterSet()
    for data in minutes:
        counters.add(bytes(4 * (SIZE - BUCKETS)) + data)
    return counters.run_time()


def _integers_of(data: bytes, number: int = 0) -> tuple[int, ...]:
    """Return the integers of the set of this number, as many as the string has."""
    part = data[number * SIZE * 4 : (number + 1) * SIZE * 4]
    return struct.unpack_from(f">{len(part) // 4}I", part)


def read_minutes(shard: Shard, queue: str, count: int) -> Flow[Metrics]:
    """Read the latest minutes of a queue, in total and by task name, in one round trip."""
    base = shard.base
    (now_us, [[name, *flat]]), by_task = yield Batch(
        [
            _counters_request(base, Part.minute, count, (queue,)),
            TASK_COUNTERS(base=base, queue=queue, count=count),
        ]
    )
    metrics = _metrics(name, dict(pairs_of(flat)), now_us, Part.minute, _starts(now_us, Part.minute, count))
    return dataclasses.replace(metrics, tasks=_tasks(by_task))


def read_hours(shard: Shard, queue: str, count: int) -> Flow[Metrics]:
    """Read the latest hours of a queue."""
    now_us, [[name, *flat]] = yield _counters_request(shard.base, Part.hour, count, (queue,))
    return _metrics(name, dict(pairs_of(flat)), now_us, Part.hour, _starts(now_us, Part.hour, count))


def read_recent(shard: Shard, queues: Sequence[str], count: int) -> Flow[dict[str, Metrics]]:
    """Read the latest minutes of the first 50 of these queues; not by task name."""
    some = queues[:MAX_QUEUES]
    return parse_recent((yield Batch(recent_requests(shard, some, count))), some, count)


def recent_requests(
    shard: Shard, queues: Sequence[str | bytes], count: int, packed: range = packed_minutes.NONE
) -> list[Call | Command]:
    """Return the requests for the latest minutes of queues; `parse_recent` parses their replies.

    Args:
        packed: the minutes that are read from the hashes of all queues, see `packed_minutes`.
    """
    rest = _counters_request(shard.base, Part.minute, count, queues, packed)
    return [rest, *packed_minutes.packed_requests(shard, queues, packed)]


def parse_recent(
    replies: Sequence[Any], queues: Sequence[str | bytes], count: int, packed: range = packed_minutes.NONE
) -> dict[str, Metrics]:
    """Return the metrics by queue from the replies to `recent_requests`."""
    (now_us, rows), *packed_replies = replies
    starts = _starts(now_us, Part.minute, count)
    known = packed_minutes.parse_packed(packed_replies, queues, packed)
    latest = now_us // 60_000_000
    found = {}
    for name, *flat in rows:
        queue = name.decode()
        of_hashes = [(latest - minute, data) for minute, data in known[queue].items()]
        minutes = {ago: data for ago, data in of_hashes if 0 < ago < count} | dict(pairs_of(flat))
        found[queue] = _metrics(name, minutes, now_us, Part.minute, starts)
    return found


def _counters_request(
    base: str, step: str, count: int, queues: Sequence[str | bytes], known: range = packed_minutes.NONE
) -> Call:
    first, last = known.start, known.stop - 1
    return READ_COUNTERS(base=base, step=step, count=count, known_first=first, known_last=last, queues=queues)


def _starts(now_us: int, step: str, count: int) -> list[datetime]:
    """Return the starts of the latest intervals, oldest first."""
    step_us = STEPS_S[step] * 1_000_000
    latest = now_us // step_us
    return [moment_of((latest - ago) * step_us) for ago in range(count - 1, -1, -1)]


def _metrics(name: bytes, counters: Mapping[int, bytes], now_us: int, step: str, starts: Sequence[datetime]) -> Metrics:
    """Return the metrics of a queue by its counters of intervals, by how many of these have begun since."""
    total = CounterSet()
    total.add_all([*counters.values()])
    intervals = [Interval(at, _NO_COUNTS) for at in starts]
    for ago, data in counters.items():
        intervals[-1 - ago] = Interval(starts[-1 - ago], _counts_of(data[: _OUTCOMES.size]))
    at = moment_of(now_us)
    counts, wait_time, run_time = total.counts(), total.wait_time(), total.run_time()
    not_run = max(0, counts.runs - sum(wait_time.buckets))  # the wait of each run is counted
    return Metrics(name.decode(), at, STEPS_S[step], intervals, counts, wait_time, run_time, [], not_run)


@functools.lru_cache(maxsize=1_024)  # of many queues most minutes have one of a few
def _counts_of(data: bytes) -> Counts:
    return Counts(*_OUTCOMES.unpack(data.ljust(_OUTCOMES.size, b"\0")))


def _tasks(by_task: Any) -> list[TaskMetrics]:
    """Return the metrics by task name. A name has a different number in each hour, so its sets are summed."""
    numbers = {hour: _names(names) for hour, names in pairs_of(by_task[0])}
    sets: dict[str, CounterSet] = {}
    rest = CounterSet()
    for hour, data in pairs_of(by_task[1]):
        rest.add(data)
        for number, name in numbers[hour].items():
            sets.setdefault(name, CounterSet()).add(data, number)
    rest.subtract(sets.values())
    sets[""] = rest
    tasks = [TaskMetrics(name, each.counts(), each.wait_time(), each.run_time()) for name, each in sets.items()]
    tasks = [each for each in tasks if any(dataclasses.astuple(each.totals))]
    return sorted(tasks, key=lambda each: (not each.name, -each.totals.finished, each.name))


def _names(flat: Sequence[bytes]) -> dict[int, str]:
    return {int(number): name.decode() for name, number in pairs_of(flat)}
