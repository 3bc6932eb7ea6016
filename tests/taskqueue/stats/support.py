"""Helpers of the tests of statistics: counters of a minute, and a random workload."""

from __future__ import annotations

import random
import struct
from unittest import mock

from django_redis_components.taskqueue import get_queue, registry
from django_redis_components.taskqueue.worker.execution import execute
from tests.support import Store, eventually
from tests.taskqueue.support import end_lease, fall_due, new_fetcher, queue_key, recover, server_ms, settle_now
from tests.taskqueue.tasks import add, fail, fail_thrice, note


def minute_key(store: Store, ago: int = 0, queue: str = "default") -> str:
    return queue_key(store, f"minute:{int(server_ms(store)) // 60_000 - ago}", queue)


def write_minute(store: Store, ago: int, *numbers: int, queue: str = "default") -> None:
    """A minute's counters: the first ones are these numbers, the others zero."""
    store.raw.set(minute_key(store, ago, queue), struct.pack(f">{len(numbers)}I", *numbers), ex=600)


QUEUES = ("high", "default", "low")


def send(store: Store, chance: random.Random, queue: str) -> None:
    plain = add.using(priority=chance.choice([0, 0, 5, -5]))
    task, args = chance.choice([(plain, (1, 2)), (fail, ()), (fail_thrice.using(backoff=90), ())])
    task.using(queue_name=queue).enqueue_many([(args, {})] * 3)


def send_for_later(store: Store, chance: random.Random, queue: str) -> None:
    result = note.using(queue_name=queue, run_after=chance.randrange(30, 90)).enqueue("later")
    if chance.random() < 0.5:
        fall_due(store, result, ms_ago=chance.randrange(5_000), queue=queue)


def run_some(store: Store, chance: random.Random, queue: str) -> None:
    worker = new_fetcher(queue, worker=f"w{chance.random()}")
    settle_now(worker, *[execute(job) for job in worker.fetch("0", chance.randrange(1, 6))])


def begin_some(store: Store, chance: random.Random, queue: str) -> None:
    new_fetcher(queue, worker=f"w{chance.random()}").fetch("0", chance.randrange(1, 3))


def die(store: Store, chance: random.Random, queue: str) -> None:
    jobs = new_fetcher(queue, worker=f"w{chance.random()}").fetch("0", 1)
    end_lease(store, *[job.id for job in jobs], queue=queue)
    recover()


def run_a_stranger(store: Store, chance: random.Random, queue: str) -> None:
    with mock.patch.object(registry, "tasks", {}):
        run_some(store, chance, queue)


def cancel_one(store: Store, chance: random.Random, queue: str) -> None:
    waiting = [result for result in get_queue(queue).tasks("ready") if result.state == "ready"]
    if waiting:
        assert chance.choice(waiting).cancel()


#: What the random workload is made of.
ACTS = [send, send, send, send_for_later, run_some, begin_some, die, run_a_stranger, cancel_one]


def stir(store: Store, seed: int) -> None:
    """A random workload that leaves tasks in every state."""
    chance = random.Random(seed)
    for _ in range(120):
        chance.choice(ACTS)(store, chance, chance.choice(QUEUES))


def this_minute(store: Store) -> int:
    """Return the server's minute. In the last 20 seconds of an hour wait for the next one: a test may take as long."""
    eventually(lambda: server_ms(store) % 3_600_000 < 3_580_000)
    return int(server_ms(store)) // 60_000
