"""A worker of many queues: empty ones are skipped together, and no task, turn, due time or wakeup is."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from django_redis_components.taskqueue import Concurrency, get_queue
from tests.support import Store, eventually
from tests.taskqueue.support import Ack, base_key, fall_due, new_fetcher, settle_now
from tests.taskqueue.tasks import note

QUEUES = [f"q{number:03}" for number in range(150)]
KINDS = ("ready", "priority", "due", "returned", "group", "limited")


def send(store: Store, kind: str, queue: str) -> None:
    """Put a task with the word `queue` into it, in one of the ways in which a task can be ready."""
    to = note.using(queue_name=queue)
    if kind == "priority":
        to.using(priority=-5).enqueue(queue)
    elif kind == "due":
        fall_due(store, to.using(run_after=60).enqueue(queue), ms_ago=10, queue=queue)
    elif kind == "group":
        to.using(fair="one").enqueue(queue)
    elif kind == "limited":
        to.using(concurrency=Concurrency(3, key=queue)).enqueue(queue)
    else:
        to.enqueue(queue)
    if kind == "returned":
        giver = new_fetcher(queue, worker="giver")
        for job in giver.fetch("0", 100):
            settle_now(giver, Ack(job.id, job.token, "requeued"))


@pytest.mark.contract
@pytest.mark.parametrize("want", [1, 7])
@pytest.mark.parametrize("seed", range(4))
def test_every_task_of_many_queues_is_found_in_strict_order(store: Store, seed: int, want: int) -> None:
    chosen = random.Random(seed)
    wanted = sorted(chosen.choices(QUEUES, k=chosen.choice((3, 20, 120))))
    for queue in wanted:
        send(store, chosen.choice(KINDS), queue)
    fetcher = new_fetcher(*QUEUES)

    found = []
    while jobs := fetcher.fetch("0", want):
        found += [job.queue for job in jobs]
        for job in jobs:
            settle_now(fetcher, Ack(job.id, job.token, "succeeded", b"null"))

    assert found == wanted


@pytest.mark.contract
def test_tasks_that_are_left_notify_another_worker(store: Store) -> None:
    left = (QUEUES[1], QUEUES[77], QUEUES[149])
    for queue in (QUEUES[0], *left):
        note.using(queue_name=queue).enqueue(queue)
    store.raw.delete(*[base_key(store, "wakeup", f"q:{queue}") for queue in QUEUES])

    assert [job.queue for job in new_fetcher(*QUEUES).fetch("0", 1)] == [QUEUES[0]]

    assert [queue for queue in QUEUES if store.raw.exists(base_key(store, "wakeup", f"q:{queue}"))] == [*left]


def test_due_time_of_any_of_many_queues_is_known(redis_server: Store) -> None:
    note.using(queue_name=QUEUES[149], run_after=500).enqueue("later")
    note.using(queue_name=QUEUES[130], run_after=60).enqueue("soon")
    fetcher = new_fetcher(*QUEUES)

    assert fetcher.fetch("0", 1) == []

    assert 50 < (fetcher.seconds_to_due() or 0) < 61


def test_paused_queue_among_many_is_left_alone(redis_server: Store) -> None:
    for queue in (QUEUES[60], QUEUES[61]):
        note.using(queue_name=queue).enqueue(queue)
    get_queue(QUEUES[60]).pause("test")

    assert [job.queue for job in new_fetcher(*QUEUES).fetch("0", 10)] == [QUEUES[61]]


def test_tasks_that_arrive_while_empty_queues_are_skipped_are_found(redis_server: Store) -> None:
    sent = [random.Random(number).choice(QUEUES) for number in range(300)]
    found: list[str] = []
    fetcher = new_fetcher(*QUEUES)

    def produce() -> None:
        for queue in sent:
            note.using(queue_name=queue).enqueue(queue)

    producer = threading.Thread(target=produce)
    producer.start()
    eventually(lambda: found.extend(job.queue for job in fetcher.fetch("0", 3)) or len(found) == len(sent))
    producer.join()

    assert sorted(found) == sorted(sent)


def test_empty_queues_are_looked_at_together(redis_server: Store) -> None:
    fetcher, alone, pair = new_fetcher(*QUEUES), new_fetcher(QUEUES[0]), new_fetcher(*QUEUES[:2])

    assert commands_of(redis_server, lambda: alone.fetch("0", 1)) == 4, "as many as before"
    assert commands_of(redis_server, lambda: pair.fetch("0", 1)) == 6, "few are looked at one by one"
    assert commands_of(redis_server, lambda: fetcher.fetch("0", 1)) <= 12


def test_queues_with_tasks_cost_hardly_more(redis_server: Store) -> None:
    for queue in QUEUES:
        note.using(queue_name=queue).enqueue_many([((queue,), {})] * 3)
    fetcher = new_fetcher(*QUEUES)

    assert commands_of(redis_server, lambda: fetcher.fetch("0", 1)) <= len(QUEUES) * 3 + 20


def commands_of(store: Store, call: Any) -> int:
    """Return how many commands the script of a call has sent."""
    call()  # loads the script
    store.raw.config_resetstat()
    call()
    return sum(
        stats["calls"]
        for name, stats in store.raw.info("commandstats").items()
        if name not in ("cmdstat_evalsha", "cmdstat_info", "cmdstat_config|resetstat")
    )
