"""Depths and pages stay exact under random operations and concurrent workers."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from django_redis_components.taskqueue import NotScheduled, Purge, TaskResult, get_queue
from django_redis_components.taskqueue.task import Task
from django_redis_components.taskqueue.worker.execution import execute
from tests.support import Store
from tests.taskqueue.support import (
    base_key,
    end_lease,
    fall_due,
    new_fetcher,
    queue_key,
    recover,
    server_ms,
    settle_now,
)
from tests.taskqueue.tasks import fail, fail_thrice, note


class Operator:
    """Does at random what can be done, and keeps what it needs to go on."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.chance = random.Random(seed)
        self.queue = get_queue("default")
        self.sent: list[TaskResult] = []
        self.purges: list[Purge] = []
        self.acts: list[Callable[[], object]] = [
            *[self.send] * 4,
            *[self.work] * 2,
            self.die,
            self.cancel,
            self.cancel,
            self.make_due,
            self.purge,
            self.undo,
            self.retry,
            self.delete,
            self.pause,
            self.queue.resume,
        ]

    def act(self) -> None:
        self.chance.choice(self.acts)()

    def send(self) -> None:
        task: Task[..., None] = self.chance.choice([note, fail, fail_thrice.using(backoff=60)])
        options = self.chance.choice([{}, {}, {"priority": 5}, {"priority": -5}, {"run_after": 60}])
        results = task.using(**options).enqueue_many([(("text",), {})] * self.chance.randrange(1, 4))
        self.sent += results
        if "run_after" in options and self.chance.random() < 0.5:
            fall_due(self.store, results[0], ms_ago=self.chance.randrange(5_000))

    def work(self) -> None:
        fetcher = new_fetcher(worker=f"w:{self.chance.random()}")
        jobs = fetcher.fetch("0", self.chance.randrange(1, 6))
        settle_now(fetcher, *[execute(job) for job in jobs[1:]])

    def die(self) -> None:
        jobs = new_fetcher(worker=f"w:{self.chance.random()}").fetch("0", 2)
        end_lease(self.store, *[job.id for job in jobs])
        recover()

    def cancel(self) -> None:
        for result in self.chance.sample(self.sent, min(3, len(self.sent))):
            try:
                result.cancel()
            except LookupError:
                continue

    def make_due(self) -> None:
        for result in self.queue.tasks("scheduled", limit=2):
            try:
                result.run_now()
            except NotScheduled:  # it fell due
                continue

    def purge(self) -> None:
        self.purges.append(self.queue.purge())

    def undo(self) -> None:
        if self.purges:
            self.queue.restore(self.purges.pop(self.chance.randrange(len(self.purges))))

    def retry(self) -> None:
        self.queue.retry_failed()

    def delete(self) -> None:
        failed = self.queue.tasks("failed", limit=2)
        assert self.queue.delete_failed([result.id for result in failed]) == len(failed)
        gone = {result.id for result in failed}
        self.sent = [result for result in self.sent if result.id not in gone]

    def pause(self) -> None:
        self.queue.pause(until=60)


def raw_depth(store: Store) -> tuple[int, int, int, int, int]:
    """Ready, scheduled, retrying, running and failed, as each task's own record and place say."""
    now_ms = server_ms(store)
    listed = [
        *store.raw.lrange(queue_key(store, "requeued"), 0, -1),
        *store.raw.lrange(queue_key(store, "ready"), 0, -1),
        *store.raw.zrange(queue_key(store, "priority"), 0, -1),
    ]
    alive = [each for each in listed if store.raw.hget(base_key(store, "t", each.decode()), "s") != b"cancelled"]
    timed = store.raw.zrange(queue_key(store, "scheduled"), 0, -1, withscores=True)
    due = sum(score <= now_ms for _, score in timed)
    places = [*alive, *[each for each, _ in timed]]
    assert len(set(places)) == len(places), "no task stands twice"
    later = [each.decode() for each, score in timed if score > now_ms]
    retrying = sum(store.raw.hget(base_key(store, "t", each), "s") == b"retrying" for each in later)
    running, failed = (store.raw.zcard(queue_key(store, part)) for part in ("running", "failed"))
    return len(alive) + due, len(later), retrying, running, failed


@pytest.mark.parametrize("seed", range(3))
def test_depths_and_pages_equal_raw_reads_after_random_operations(store: Store, seed: int) -> None:
    operator = Operator(store, seed)
    for _ in range(12):
        for _ in range(12):
            operator.act()

        ready, scheduled, retrying, running, failed = raw_depth(store)

        depth = operator.queue.info()
        assert (depth.ready, depth.scheduled, depth.running, depth.failed) == (ready, scheduled, running, failed)
        assert depth.retrying == retrying
        for state, count in (("ready", ready), ("scheduled", scheduled), ("running", running), ("failed", failed)):
            assert len(operator.queue.tasks(state, limit=1_000)) == count, state


@pytest.mark.contract
def test_rescheduled_retry_that_was_due_counts_as_retrying(store: Store) -> None:
    result = fail_thrice.using(backoff=3_600).enqueue()
    fetcher = new_fetcher()
    settle_now(fetcher, *[execute(job) for job in fetcher.fetch("0", 1)])
    result.run_now()  # no worker fetches it
    recover()  # the poller forgets retries that are due
    assert get_queue("default").info().retrying == 0

    result.reschedule(3_600)

    depth = get_queue("default").info()
    assert (depth.scheduled, depth.retrying) == (1, 1)
    assert [task.id for task in get_queue("default").tasks("scheduled")] == [result.id]


@pytest.mark.parametrize("seed", [3, 4])
def test_every_task_has_run_or_was_stopped_after_random_operations(store: Store, seed: int) -> None:
    operator = Operator(store, seed)
    for _ in range(120):
        operator.act()

    while operator.purges:
        operator.undo()
    operator.queue.resume()
    for result in operator.queue.tasks("scheduled", limit=1_000):
        result.cancel()
    end_all_leases(store)
    while operator.queue.info().ready:
        operator.work()
        end_all_leases(store)

    states = set()
    for result in operator.sent:
        result.refresh()
        states.add(result.state)
    assert states <= {"successful", "failed", "cancelled", "retrying"}
    depth = operator.queue.info()
    assert (depth.ready, depth.running) == (0, 0)
    assert store.raw.exists(queue_key(store, "tombstones")) == 0


def end_all_leases(store: Store) -> None:
    end_lease(store, *[each.decode() for each in store.raw.zrange(queue_key(store, "running"), 0, -1)])
    recover()
