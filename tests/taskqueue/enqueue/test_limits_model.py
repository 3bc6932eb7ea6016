"""Random operations never exceed a limit, and every task finishes, also of groups that are served in turn."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from django_redis_components.taskqueue import (
    Concurrency,
    FairShare,
    NotScheduled,
    Purge,
    Rate,
    TaskResult,
    get_queue,
)
from django_redis_components.taskqueue.fields import Field, Key, Part
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.worker.execution import execute
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from tests.support import Store, eventually
from tests.taskqueue.support import base_key, end_lease, new_fetcher, queue_key, recover, settle_now
from tests.taskqueue.tasks import fail, fail_thrice, note

QUEUES = ("a", "b")
GROUPS = ("one", "two", "three")
SLOTS = {"few": 2, "one": 1}
RATES: dict[str, tuple[int, float]] = {"slow": (1, 0.01), "quick": (1, 0.003)}


class Site:
    """Random operations: enqueue, run, crash, cancel, purge, pause."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.chance = random.Random(seed)
        self.sent: list[TaskResult] = []
        self.held: list[tuple[Fetcher, Job]] = []
        self.purges: list[Purge] = []
        self.fetchers = 0
        #: Rate as it is stored -> when its tasks started, in microseconds.
        self.starts: defaultdict[str, list[int]] = defaultdict(list)
        self.acts: list[Callable[[], object]] = [
            *[self.send] * 5,
            *[self.fetch] * 6,
            *[self.settle] * 6,
            *[self.cancel, self.move, self.die, self.die],
            *[self.purge, self.undo, self.pause, self.resume, self.retry],
            *[self.pause_group, self.resume_group, self.resume_group],
        ]

    def send(self) -> None:
        chance = self.chance
        options: dict[str, Any] = {"queue_name": chance.choice(QUEUES)}
        if chance.random() < 0.7:
            group = chance.choice(list(SLOTS))
            options["concurrency"] = Concurrency(SLOTS[group], group=group)
        if chance.random() < 0.6:
            group = chance.choice(list(RATES))
            options["rate"] = Rate(RATES[group], group=group)
        if chance.random() < 0.6:
            options["fair"] = FairShare(chance.choice(GROUPS), weight=chance.choice([1, 1, 3]))
        options |= chance.choice([{}, {}, {"priority": 5}, {"priority": -5}, {"run_after": 0.02}])
        what: Any = chance.choice([note, note, fail, fail_thrice])
        self.sent += what.using(**options).enqueue_many([(("text",), {})] * chance.randrange(1, 5))

    def fetch(self) -> None:
        self.fetchers += 1
        queues = self.chance.choice([QUEUES, QUEUES[::-1], QUEUES[:1], QUEUES[1:]])
        fetcher = new_fetcher(*queues, worker=f"w:{self.fetchers}")
        jobs = fetcher.fetch("0", self.chance.randrange(1, 6))
        self.held += [(fetcher, job) for job in jobs]
        self.record_starts(jobs)

    def record_starts(self, jobs: list[Job]) -> None:
        for job in jobs:
            record = self.store.raw.hgetall(base_key(self.store, Key.task, job.id))
            rate = record.get(Field.rate.encode())
            if rate:
                self.starts[rate.decode()].append(int(record[Field.leased_at_us.encode()]))

    def settle(self) -> None:
        for _ in range(min(len(self.held), 3)):
            fetcher, job = self.held.pop(self.chance.randrange(len(self.held)))
            ack = execute(job) if self.chance.random() < 0.8 else Ack(job.id, job.token, "requeued")
            settle_now(fetcher, ack)

    def die(self) -> None:
        if self.held:
            _, job = self.held.pop(self.chance.randrange(len(self.held)))
            end_lease(self.store, job.id, queue=job.queue)
            recover()

    def cancel(self) -> None:
        for result in self.chance.sample(self.sent, min(2, len(self.sent))):
            result.cancel()

    def move(self) -> None:
        for result in get_queue(self.chance.choice(QUEUES)).tasks("scheduled"):
            if self.chance.random() < 0.3:
                try:
                    result.reschedule(self.chance.choice([0, 0.005, 0.05]))
                except NotScheduled:
                    continue

    def purge(self) -> None:
        if self.chance.random() < 0.3:
            self.purges.append(get_queue(self.chance.choice(QUEUES)).purge())

    def undo(self) -> None:
        if self.purges:
            purge = self.purges.pop(self.chance.randrange(len(self.purges)))
            get_queue(purge.queue).restore(purge)

    def pause(self) -> None:
        get_queue(self.chance.choice(QUEUES)).pause()

    def resume(self) -> None:
        get_queue(self.chance.choice(QUEUES)).resume()

    def pause_group(self) -> None:
        get_queue(self.chance.choice(QUEUES)).pause_group(self.chance.choice(GROUPS))

    def resume_group(self) -> None:
        get_queue(self.chance.choice(QUEUES)).resume_group(self.chance.choice(GROUPS))

    def retry(self) -> None:
        get_queue(self.chance.choice(QUEUES)).retry_failed()

    def check(self) -> None:
        """Only running tasks have slots, and no limit is exceeded."""
        running: dict[str, set[bytes]] = {}
        for queue in QUEUES:
            for task_id in self.store.raw.zrange(queue_key(self.store, Part.running, queue), 0, -1):
                limit_field = self.store.raw.hget(base_key(self.store, Key.task, task_id.decode()), Field.concurrency)
                if limit_field:
                    running.setdefault(limit_field.decode().partition("/")[2], set()).add(task_id)
        for group, limit in SLOTS.items():
            holders = set(self.store.raw.zrange(base_key(self.store, "holders", f"c:{group}"), 0, -1))
            assert holders == running.get(group, set())
            assert len(holders) <= limit

    def finish(self) -> None:
        """Run all tasks until they have finished."""
        while self.purges:
            self.undo()
        for queue in QUEUES:
            get_queue(queue).resume()
            for group in GROUPS:
                get_queue(queue).resume_group(group)
        for fetcher, job in self.held:
            settle_now(fetcher, execute(job))
        eventually(self._has_worked_off)

    def _has_worked_off(self) -> bool:
        self.fetchers += 1
        fetcher = new_fetcher(*QUEUES, worker=f"w:{self.fetchers}")
        while jobs := fetcher.fetch("0", 4):
            self.record_starts(jobs)
            for job in jobs:
                settle_now(fetcher, execute(job))
        depths = [get_queue(queue).info() for queue in QUEUES]
        return all(depth.ready + depth.scheduled == 0 for depth in depths)


def assert_rates_were_kept(starts: dict[str, list[int]]) -> None:
    """No start is earlier than its rate allows (GCRA), whatever the task went through before."""
    assert len(starts) == len(RATES)
    for rate, times in starts.items():
        interval_us, tolerance_us = map(int, rate.split("/")[:2])
        next_us = 0
        for start_us in times:
            assert start_us >= next_us - tolerance_us, rate
            next_us = max(start_us, next_us) + interval_us


@pytest.mark.contract
@pytest.mark.parametrize("seed", range(2))
def test_random_operations_never_exceed_limits_and_every_task_finishes(store: Store, seed: int) -> None:
    site = Site(store, seed)
    for _ in range(150):
        site.chance.choice(site.acts)()
        site.check()

    site.finish()

    states = Counter[str]()
    for result in site.sent:
        result.refresh()
        states[result.state] += 1
    assert set(states) <= {"successful", "failed", "cancelled"}
    assert_rates_were_kept(site.starts)
    left = (
        f":{Part.limited}",
        f":{Part.reserved}",
        f":{Part.grouped}",
        f":{Part.turns}",
        f":{Key.holders}:",
        f":{Part.tombstones}",
    )
    assert not [key for key in store.keys() if any(part in key.decode() for part in left)]  # noqa: SIM118
