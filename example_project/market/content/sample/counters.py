"""Counters of tasks that have never run: throughput, failures, wait and run times of the past weeks.

A day has its quiet and its busy hours. In the last hour the mail provider was away for some minutes, and later more
tasks came than the workers could run at once.
"""

from __future__ import annotations

import math
import random
import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from django_redis_components.core.protocol import Command
from django_redis_components.taskqueue.fields import Key, Part, Ttl
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.states import OutcomeCounter
from django_redis_components.taskqueue.stats.histogram import BUCKETS, FIRST_S
from django_redis_components.taskqueue.stats.metrics import OUTCOMES, SIZE

#: Module of the tasks.
TASKS = "example_project.market.tasks"

#: Days before today that have counters, and hours with counters by queue and by ten minutes.
DAYS, QUEUE_HOURS, TEN_MINUTE_HOURS = 30, 7 * 24, 24

#: Minutes by task name that the queues keep, without the current one.
MINUTES = 170

#: Tasks of a set whose durations are drawn one by one; the counts of larger sets are multiples.
DRAWN = 50

#: Minutes ago: begin and end of the mail provider's outage, and of the rush.
OUTAGE, RUSH = (41, 34), (19, 13)

#: Minutes ago of each task that has failed in the last hours, by queue and name. These are tasks that pages list.
FAILED = {
    ("default", "deliver_letter"): [ago for ago in range(OUTAGE[0], OUTAGE[1], -1) for _ in range(12)],
    ("high", "notify_seller"): [26, 26, 25, 1],
}

#: How many times as many tasks came in the rush, and how many times as long they waited.
RUSH_TASKS, RUSH_WAIT = 2.2, 60.0

#: The lengths of the history's buckets in minutes, with their lifetimes.
BUCKETS_MS = {1: Ttl.history_1_ms, 10: Ttl.history_10_ms, 60: Ttl.history_60_ms, 1_440: Ttl.history_1440_ms}


@dataclass(frozen=True)
class Load:
    """The tasks of a name in a queue.

    Attributes:
        per_minute: how many finish, on average.
        wait_s, run_s: medians.
        failed: share that fails. In the last hours `FAILED` does.
    """

    queue: str
    name: str
    per_minute: float
    wait_s: float
    run_s: float
    failed: float = 0.002


LOADS = (
    Load("high", "notify_seller", 4, 0.004, 0.045),
    Load("high", "answer_buyer", 3, 0.003, 0.12),
    Load("default", "deliver_letter", 9, 0.012, 0.06),
    Load("default", "end_sale", 6, 0.01, 0.02),
    Load("default", "send_visitors", 0.3, 0.02, 1.4, failed=0.01),
    Load("low", "report_links", 2, 0.08, 0.05),
    Load("low", "end_overdue_sales", 1, 0.03, 0.012),
    Load("low", "aggregate_access_log", 1, 0.03, 0.07),
)

Counts = list[int]


@dataclass
class Counters:
    """The counters until the minute `now`, in minutes since the epoch."""

    now: int
    rng: random.Random
    by_minute: dict[tuple[str, int], dict[str, Counts]] = field(default_factory=lambda: defaultdict(dict))
    by_hour: dict[tuple[str, int], Counts] = field(default_factory=lambda: defaultdict(lambda: [0] * SIZE))
    history: dict[tuple[int, int], Counts] = field(default_factory=lambda: defaultdict(lambda: [0] * SIZE))

    def commands(self, shard: Shard) -> Iterator[Command]:
        """Yield the commands that write the counters. They replace what this minute and those before have."""
        for first, length in self._spans():
            for load in LOADS:
                self._add(load, first, length)
        yield from self._queue_commands(shard)
        for (minutes, bucket), counts in self.history.items():
            left_ms = BUCKETS_MS[minutes] - (self.now - bucket * minutes) * 60_000
            if left_ms > 0:
                yield _set(shard.key(Key.history, str(minutes), str(bucket)), _packed(counts), left_ms)
        yield _set(shard.key(Key.rollup), str(self.now - 1), Ttl.rollup_ms)

    def _spans(self) -> Iterator[tuple[int, int]]:
        """Yield first minute and length of the parts of the past, the latest first; each is part of one bucket."""
        first = (self.now - MINUTES) // 10 * 10
        yield from ((minute, 1) for minute in range(self.now - 1, first - 1, -1))
        for length, until in (
            (10, (self.now // 60 - TEN_MINUTE_HOURS) * 60),
            (60, (self.now // 1_440 - QUEUE_HOURS // 24) * 1_440),
            (1_440, (self.now // 1_440 - DAYS) * 1_440),
        ):
            yield from ((minute, length) for minute in range(first - length, until - 1, -length))
            first = until

    def _add(self, load: Load, first: int, length: int) -> None:
        counts = self._counts(load, first, length)
        if length == 1:
            self.by_minute[load.queue, first][load.name] = counts
        sums = [self.history[minutes, first // minutes] for minutes in BUCKETS_MS if minutes >= length]
        if length <= 60:
            sums.append(self.by_hour[load.queue, first // 60])
        for total in sums:
            for index, count in enumerate(counts):
                if count:
                    total[index] += count

    def _counts(self, load: Load, first: int, length: int) -> Counts:
        """Return the counters of a name in some minutes."""
        ago = self.now - first
        is_rush = RUSH[0] >= ago > RUSH[1]
        share = _share_of_day(first + length / 2) * self.rng.uniform(0.8, 1.2) * (RUSH_TASKS if is_rush else 1)
        number = load.per_minute * share * length
        finished = int(number) + (self.rng.random() < number % 1)
        lost = FAILED.get((load.queue, load.name), []).count(ago) if length == 1 else 0
        finished, share_failed = max(finished, lost), load.failed if length > 1 else 0.0
        counts = [0] * SIZE
        each, rest = divmod(finished, DRAWN)
        for index in range(min(finished, DRAWN)):
            times = each + (index < rest)
            is_failed = index < lost or self.rng.random() < share_failed
            counts[OutcomeCounter.failed if is_failed else OutcomeCounter.succeeded] += times
            wait_s = load.wait_s * (RUSH_WAIT if is_rush else 1) * self.rng.lognormvariate(0, 0.6)
            counts[OUTCOMES + _bucket(wait_s)] += times
            counts[OUTCOMES + BUCKETS + _bucket(load.run_s * self.rng.lognormvariate(0, 0.4))] += times
        return counts

    def _queue_commands(self, shard: Shard) -> Iterator[Command]:
        names: dict[str, list[str]] = defaultdict(list)
        for load in LOADS:
            names[load.queue].append(load.name)
        for queue, of_queue in names.items():
            numbers = [part for number, name in enumerate(of_queue, 1) for part in (f"{TASKS}.{name}", str(number))]
            for hour in range((self.now - MINUTES) // 60, self.now // 60 + 1):
                key = shard.queue(queue, f"{Part.task_names}:{hour}")
                yield Command("DEL", key)
                yield Command("HSET", key, *numbers)
                yield Command("PEXPIRE", key, Ttl.task_names_ms)
            yield Command("DEL", shard.queue(queue, f"{Part.minute}:{self.now}"))
        for (queue, minute), sets in self.by_minute.items():
            ordered = [sets[name] for name in names[queue]]
            data = b"".join(map(_packed, [_sum(ordered), *ordered]))
            left_ms = Ttl.minute_ms - (self.now - minute) * 60_000
            yield _set(shard.queue(queue, f"{Part.minute}:{minute}"), data, left_ms)
        totals: dict[str, Counts] = defaultdict(lambda: [0] * SIZE)
        for (queue, hour), counts in self.by_hour.items():
            totals[queue] = _sum([totals[queue], counts])
            yield _set(shard.queue(queue, f"{Part.hour}:{hour}"), _packed(counts), Ttl.hour_ms)
        for queue, counts in totals.items():
            yield _set(shard.queue(queue, Part.total), _packed(counts), Ttl.hour_ms)


def _share_of_day(minute: float) -> float:
    """Return how busy a time of the day is: 0.6 at night, 1.4 in the afternoon."""
    return 1 + 0.4 * math.sin((minute % 1_440 / 1_440 - 0.38) * math.tau)


def _bucket(seconds: float) -> int:
    return 0 if seconds < FIRST_S else min(BUCKETS - 1, 1 + int(2 * math.log2(seconds / FIRST_S)))


def _sum(sets: list[Counts]) -> Counts:
    return [sum(counts) for counts in zip(*sets, strict=True)]


def _packed(counts: Counts) -> bytes:
    return struct.pack(f">{SIZE}I", *counts)


def _set(key: str, value: bytes | str, ttl_ms: int) -> Command:
    return Command("SET", key, value, "PX", ttl_ms)
