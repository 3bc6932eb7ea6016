"""A spread queue as a whole: workers, operations, schedules, batches, and changes of its shards."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event, Thread
from typing import Any

import pytest
from redis.exceptions import RedisError

from django_redis_components.core.protocol import Command
from django_redis_components.taskqueue import (
    Concurrency,
    Schedules,
    TaskContext,
    TaskResult,
    Unique,
    chain,
    get_queue,
    group,
    schedules,
    task,
)
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.poller import Poller
from django_redis_components.taskqueue.shards import named, shards_of
from django_redis_components.testing import drain
from tests.support import eventually
from tests.support.processes import Children
from tests.support.waiting import TIMEOUT_S
from tests.taskqueue.batching.tasks import collect_by_key, runs
from tests.taskqueue.schedulers import at, next_round
from tests.taskqueue.shards.support import TwoShards, set_options
from tests.taskqueue.support import SITE, Held, running_worker
from tests.taskqueue.tasks import add, crowd, fail, hold, note

ROUTES = {"default": None, "high": None, "events": ["default", "b"]}
events = note.using(queue_name="events")
sums = add.using(queue_name="events")
limited = sums.using(concurrency=Concurrency(1, key="{a}"))


@pytest.fixture(autouse=True)
def spread(shards: TwoShards, settings: Any) -> None:
    """Spread the queue "events" over both shards."""
    set_options(settings, QUEUES=ROUTES)


def has_tasks(shards: TwoShards) -> list[bool]:
    """Return whether each shard has records of tasks."""
    return [
        any(b":t:" in key for key in shards.keys_of(store, tag))
        for store, tag in ((shards.a, "default"), (shards.b, "b"))
    ]


# Running


def test_worker_runs_the_tasks_of_all_shards_of_a_queue(shards: TwoShards) -> None:
    results = [task.enqueue(number, 1) for number in range(20) for task in (sums, limited)]
    flow = chain(group(sums.s(1, 2), sums.s(3, 4)), events.s()).enqueue()
    assert has_tasks(shards) == [True, True]

    with running_worker("events", threads=3):
        assert [result.get(TIMEOUT_S) for result in results] == [number + 1 for number in range(20) for _ in "ab"]
        assert flow.get(TIMEOUT_S) == [3, 7]


def test_limit_is_exact_over_all_shards(shards: TwoShards) -> None:
    crowds = crowd.using(queue_name="events")
    results = [crowds.enqueue() for _ in range(40)]

    with running_worker("events", threads=8):
        assert max(result.get(TIMEOUT_S) for result in results) <= 3


def test_unique_key_is_accepted_once_by_many_clients_at_once(shards: TwoShards) -> None:
    unique = events.using(unique=Unique())

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda number: unique.enqueue(number % 5), range(40)))

    assert len({result.id for result in results}) == 5
    assert sum(not result.is_duplicate for result in results) == 5


def test_tasks_of_a_killed_process_are_recovered_in_all_shards(
    shards: TwoShards, settings: Any, children: Children
) -> None:
    set_options(settings, LEASE=600)
    children.manage("runworker", "events", "--threads=4", env=SITE)
    held = [Held(shards.a, str(number)) for number in range(4)]
    results = [hold.using(queue_name="events").enqueue(str(number)) for number in range(4)]
    assert has_tasks(shards) == [True, True]
    [pid] = {each.started() for each in held}

    os.kill(pid, signal.SIGKILL)

    for each in held:
        assert each.started(2) != pid
        each.release()
    assert [result.get(TIMEOUT_S) for result in results] == ["0", "1", "2", "3"]


def test_shard_that_is_away_under_load_stops_only_its_own_tasks(shards: TwoShards, children: Children) -> None:
    children.manage("runworker", "events", "--processes=2", "--threads=2", env=SITE).wait_for("Poller")
    results: list[TaskResult] = []
    errors = 0
    for number in range(300):
        if number == 100:
            shards.server_b.kill()
        if number == 200:
            shards.server_b.start()
        try:
            results.append((limited if number % 10 == 0 else sums).enqueue(number, 1))
        except RedisError:
            errors += 1

    assert errors <= 12  # those with a key in the shard, and those whose connection broke
    for result in results:
        result.get(TIMEOUT_S)
    assert {len(result.worker_ids) for result in results} == {1}


def test_calls_of_a_batch_with_the_same_key_run_together(shards: TwoShards) -> None:
    batched = collect_by_key.using(queue_name="events")
    customers = [str(number) for number in range(6)]
    runs.clear()
    results = [batched.enqueue(customer, number) for number in range(3) for customer in customers]
    assert has_tasks(shards) == [True, True]

    with running_worker("events"):
        for result in results:
            result.get(TIMEOUT_S)

    assert sorted(runs) == [[customer] * 3 for customer in customers]


@task(takes_context=True, queue_name="events")
def add_limited(context: TaskContext, key: int) -> None:
    """Add a call with a limit to the flow."""
    context.flow.add(limited.si(key, 1))


def test_running_task_adds_no_task_whose_limit_is_in_another_shard(shards: TwoShards) -> None:
    flow = group(add_limited.si(number) for number in range(20)).enqueue()

    with running_worker("events", threads=2):
        eventually(lambda: (flow.refresh(), all(result.is_finished for result in flow.results))[1])

    own = flow.results[:20]
    failed = [result for result in own if result.state == "failed"]
    assert 0 < len(failed) < 20
    assert {result.errors[-1].exception_class_path.rpartition(".")[2] for result in failed} == {"InvalidTask"}
    assert [result.state for result in flow.results[20:]] == ["successful"] * (20 - len(failed))


# Operations


def test_figures_and_operations_are_those_of_all_shards(shards: TwoShards) -> None:
    queue = get_queue("events")
    ids = [events.enqueue(number).id for number in range(10)]

    assert queue.info().ready == 10
    assert {task.id for task in queue.tasks("ready")} == set(ids)
    queue.pause()
    assert drain("events") == []
    assert queue.resume()
    assert queue.cancel(ids[:4]) == 4
    purge = queue.purge()
    assert (purge.count, queue.info().ready) == (6, 0)
    assert queue.restore(purge) == 6
    assert {result.id for result in drain("events")} == set(ids[4:])


def test_failed_tasks_of_all_shards_are_retried_and_deleted(shards: TwoShards) -> None:
    failing = fail.using(queue_name="events")
    ids = {failing.enqueue().id for _ in range(4)}
    drain("events", raise_errors=False)
    queue = get_queue("events")

    [error] = queue.errors()
    assert (error.count, queue.info().failed) == (4, 4)
    assert {task.id for task in queue.tasks("failed")} == ids
    assert queue.retry_failed() == 4
    drain("events", raise_errors=False)
    assert queue.delete_failed() == 4


def test_groups_of_fair_share_are_placed_and_shown_as_those_of_one_queue(shards: TwoShards) -> None:
    fair = sums.using(fair="{a}")
    for number in range(12):
        fair.enqueue(number % 4, 1)
    queue = get_queue("events")

    assert {each.name: each.ready for each in queue.groups()} == {str(number): 3 for number in range(4)}
    queue.pause_group("1")
    assert len(drain("events")) == 9
    assert queue.resume_group("1")
    assert len(drain("events")) == 3


# Changes of the shards


def test_adding_and_removing_a_shard_under_load_loses_and_repeats_nothing(
    shards: TwoShards, settings: Any, children: Children
) -> None:
    for _ in range(2):
        children.manage("runworker", "events", "--threads=2", env=SITE)
    results = []
    for route in (["default"], ["default", "b"], ["b"], ["b", "default"]):
        set_options(settings, QUEUES={**ROUTES, "events": route})
        results += [task.enqueue(number, 1) for number in range(30) for task in (sums, limited)]

    for number, result in enumerate(results):
        assert result.get(TIMEOUT_S) == number // 2 % 30 + 1
    assert {len(result.worker_ids) for result in results} == {1}


def test_shard_that_was_drained_can_be_removed(shards: TwoShards, settings: Any) -> None:
    results = [sums.enqueue(number, 1) for number in range(10)]
    set_options(settings, QUEUES={**ROUTES, "events": None})
    later = [sums.enqueue(number, 1) for number in range(4)]
    with running_worker("events", threads=2):
        for result in (*results, *later):
            result.get(TIMEOUT_S)
    assert get_queue("events").info().ready == 0

    set_options(settings, SHARDS=None)

    assert [shard.name for shard in shards_of()] == ["default"]
    assert sums.enqueue(1, 1).state == "ready"
    assert [result.return_value for result in later if not result.refresh()] == [1, 2, 3, 4]


def test_key_that_stays_in_its_shard_is_exact_while_a_shard_is_added(shards: TwoShards, settings: Any) -> None:
    unique = events.using(unique=Unique())
    set_options(settings, QUEUES={**ROUTES, "events": ["default"]})
    first = [unique.enqueue(number) for number in range(20)]
    set_options(settings, QUEUES=ROUTES)

    again = [unique.enqueue(number) for number in range(20)]

    moved = sum(not result.is_duplicate for result in again)
    assert 0 < moved < 20
    assert [one.id for one, other in zip(first, again, strict=True) if other.is_duplicate] == [
        other.id for other in again if other.is_duplicate
    ]


# Schedules


def test_schedules_of_a_spread_queue_are_in_all_shards(shards: TwoShards, children: Children) -> None:
    names = [f"every-{number}" for number in range(6)]
    for name in names:
        Schedules().add(name, add, every=1, args=[1, 2], options={"queue_name": "events"})
    assert {each.name for each in schedules()} == set(names)
    children.manage("runworker", "events", env=SITE)

    eventually(lambda: all(each.last_task_state == "successful" for each in schedules()))
    assert Schedules().pause(names[0])
    assert Schedules().run_now(names[1]).get(TIMEOUT_S) == 3
    assert all(Schedules().remove(name) for name in names)
    assert schedules() == []


def test_threads_that_enqueue_at_once_lose_nothing(shards: TwoShards) -> None:
    numbers, stop = count(), Event()
    sent: list[TaskResult] = []

    def send() -> None:
        while not stop.is_set():
            sent.append(sums.enqueue(next(numbers), 1))

    threads = [Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    with running_worker("events", threads=2):
        eventually(lambda: len(sent) > 100)
        stop.set()
        for thread in threads:
            thread.join()
        for result in sent:
            result.get(TIMEOUT_S)
    assert has_tasks(shards) == [True, True]


def run_poller(name: str, schedule: Any) -> None:
    """Let a poller of a shard become active and run a round."""
    shard = named(name)
    poller = Poller(shard, shard.client(), schedules=[schedule])
    next_round(poller)
    poller.close()


def set_last(name: str, last_ms: int) -> None:
    """Set the last due time of the schedule in a shard."""
    shard = named(name)
    assert shard.client().execute(Command("HSET", shard.key(Key.schedule, "s"), "last", last_ms)) == 0


def test_schedule_continues_in_another_shard_after_the_last_time_that_was_sent(shards: TwoShards) -> None:
    now_ms = time.time_ns() // 1_000_000
    schedule = at(now_ms - 3_000, now_ms - 2_000, misfire="all", task=events)
    run_poller("default", schedule)
    set_last("default", now_ms - 3_000)

    run_poller("b", schedule)  # the route has changed: what is due since then is sent here

    assert get_queue("events").info().ready == 1
    set_last("default", now_ms - 4_000)
    run_poller("default", schedule)  # and changes again: nothing is sent twice
    assert get_queue("events").info().ready == 1


def test_number_of_a_limited_schedule_counts_over_all_shards(shards: TwoShards) -> None:
    now_ms = time.time_ns() // 1_000_000
    schedule = at(now_ms - 3_000, now_ms - 2_000, misfire="all", count=1, task=events)
    run_poller("default", schedule)
    set_last("default", now_ms - 4_000)
    run_poller("default", schedule)
    assert get_queue("events").info().ready == 1
    set_last("default", now_ms - 2_500)

    run_poller("b", schedule)

    assert get_queue("events").info().ready == 1


def test_schedule_starts_anew_if_the_other_shard_is_away(shards: TwoShards, caplog: pytest.LogCaptureFixture) -> None:
    shards.server_b.kill()

    run_poller("default", at(time.time_ns() // 1_000_000 - 3_000, task=events))

    assert "schedules do not continue from there" in caplog.text
    assert not any(b":t:" in key for key in shards.keys_of(shards.a, "default"))
