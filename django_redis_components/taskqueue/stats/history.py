"""History of all queues together: counters and histograms by minute, ten minutes, hour and day (UTC).

The poller adds each minute that has ended to one bucket of each length, in the call that notes the minute as added. The
minutes since are read from the queues.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django_redis_components.core.arguments import check_choice
from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.protocol import Flow
from django_redis_components.core.units import moment_of
from django_redis_components.taskqueue.shards import Shard, home
from django_redis_components.taskqueue.stats.histogram import Histogram
from django_redis_components.taskqueue.stats.metrics import CounterSet, Counts
from django_redis_components.taskqueue.store.scripts import READ_HISTORY

#: Minutes of single queues that one request reads at most, to complete the latest buckets: 5 minutes of 200 queues, or
#: the latest one of 1,000.
MAX_LIVE = 1_000


@dataclasses.dataclass(frozen=True, slots=True)
class Range:
    """A range of the history: `count` buckets of `minutes` each, the one that has not ended included."""

    minutes: int
    count: int


#: The ranges by name.
RANGES = {"1h": Range(1, 60), "24h": Range(10, 144), "7d": Range(60, 168), "90d": Range(1_440, 90)}


@dataclasses.dataclass(frozen=True, slots=True)
class HistoryInterval:
    """One bucket, starting at `at`, of all queues together."""

    at: datetime
    counts: Counts
    wait_time: Histogram
    run_time: Histogram


@dataclasses.dataclass(frozen=True, slots=True)
class History:
    """A range of the history, by the server's clock.

    Attributes:
        range: "1h", "24h", "7d" or "90d".
        at: when it was read.
        step: length of an interval in seconds.
        intervals: oldest first, including empty ones; the last one is incomplete.
        totals, wait_time, run_time: of all intervals.
        missing: start and end of a time that is not contained: no poller has added it yet, and it is too much to be
            read from the queues. None without one.
    """

    range: str
    at: datetime
    step: int
    intervals: list[HistoryInterval]
    totals: Counts
    wait_time: Histogram
    run_time: Histogram
    missing: tuple[datetime, datetime] | None


def history(range_name: str, *, using: str = "default") -> History:
    """Return a range of the history of all queues together, in one round trip.

    Args:
        range_name: "1h" (by minute), "24h" (by ten minutes), "7d" (by hour) or "90d" (by day, UTC).

    Raises:
        ValueError: no such range.
    """
    shard = home(using)
    return shard.run(read_history(shard, range_name))


async def ahistory(range_name: str, *, using: str = "default") -> History:
    """See `history`."""
    shard = home(using)
    return await shard.arun(read_history(shard, range_name))


def check_range(name: str) -> str:
    """Return the name of a range.

    Raises:
        ValueError: there is no such range.
    """
    return check_choice(name, "range", RANGES)


def read_history(shard: Shard, name: str) -> Flow[History]:
    """Return a range of the history; see `history`."""
    found = RANGES[check_range(name)]
    reply = yield READ_HISTORY(base=shard.base, minutes=found.minutes, count=found.count, budget=MAX_LIVE)
    return _history(name, found, reply)


def read_last_hours(shard: Shard) -> Flow[tuple[Counts, Counts] | None]:
    """Return the counts of the last six full intervals of ten minutes, and of the six before.

    None if no poller has added the former to the history.
    """
    now_us, rolled, _, rows = yield READ_HISTORY(base=shard.base, minutes=10, count=13, budget=1)
    if rolled < now_us // 600_000_000 * 10 - 1:
        return None
    last, before = CounterSet(), CounterSet()
    for ago, data in pairs_of(rows):
        if ago:  # 0 has not ended
            (last if ago <= 6 else before).add(data)
    return last.counts(), before.counts()


def _history(name: str, span: Range, reply: Any) -> History:
    now_us, rolled, first, rows = reply
    newest = now_us // 60_000_000 // span.minutes
    sets = _sums(span.count, rows)
    oldest = newest - span.count + 1
    intervals = [_interval((oldest + index) * span.minutes, counters) for index, counters in enumerate(sets)]
    total = CounterSet()
    for counters in sets:
        total.merge(counters)
    start = max(rolled + 1, oldest * span.minutes)
    return History(
        range=name,
        at=moment_of(now_us),
        step=span.minutes * 60,
        intervals=intervals,
        totals=total.counts(),
        wait_time=total.wait_time(),
        run_time=total.run_time(),
        missing=(_minute(start), _minute(first)) if start < first else None,
    )


def _sums(count: int, rows: Iterable[Any]) -> list[CounterSet]:
    """Return the sums of counters by their distance from the latest bucket, the oldest first."""
    sets = [CounterSet() for _ in range(count)]
    found: dict[int, list[bytes]] = {}
    parts = iter(rows)
    for ago, data in zip(parts, parts, strict=True):
        found.setdefault(ago, []).append(data)
    for ago, strings in found.items():
        sets[-1 - ago].add_all(strings)
    return sets


def _interval(minute: int, counters: CounterSet) -> HistoryInterval:
    return HistoryInterval(_minute(minute), counters.counts(), counters.wait_time(), counters.run_time())


def _minute(number: int) -> datetime:
    return moment_of(number * 60_000_000)
