"""The index of queues: all queues are maintained, and unused ones are removed."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.taskqueue import chain, get_queue, registry
from django_redis_components.taskqueue.poller import Poller
from django_redis_components.taskqueue.shards import home
from tests.support import Store
from tests.taskqueue.schedulers import next_round, seconds_to_next_round
from tests.taskqueue.support import (
    base_key,
    end_lease,
    fall_due,
    let_recovery_begin,
    new_fetcher,
    queue_key,
    recover,
    server_ms,
    work_off,
)
from tests.taskqueue.tasks import fail, note

DAY_MS = 86_400_000


def known(store: Store) -> list[str]:
    return [name.decode() for name in store.raw.zrange(base_key(store, "queues"), 0, -1)]


def idle_for(store: Store, ms: int, queue: str = "default") -> None:
    store.raw.zadd(base_key(store, "idle_queues"), {queue: server_ms(store) - ms})


@pytest.fixture
def used_up(store: Store) -> Store:
    """Queue "default" has had a task, and has nothing any more."""
    note.enqueue(1)
    work_off()
    store.raw.delete(queue_key(store, "successful"))  # FINISHED_TTL has passed
    recover()
    return store


def test_a_queue_empty_for_a_day_is_removed_from_the_index(used_up: Store) -> None:
    assert known(used_up) == ["default"]
    idle_for(used_up, DAY_MS - 60_000)
    recover()
    assert known(used_up) == ["default"]
    idle_for(used_up, DAY_MS + 1)

    recover()

    assert known(used_up) == []
    assert used_up.raw.exists(base_key(used_up, "idle_queues")) == 0


def test_the_next_task_adds_the_queue_to_the_index_again(used_up: Store) -> None:
    idle_for(used_up, DAY_MS + 1)
    recover()

    note.enqueue(2)

    assert known(used_up) == ["default"]


def test_idle_time_starts_when_the_queue_is_found_empty_and_ends_with_its_next_task(used_up: Store) -> None:
    since_ms = used_up.raw.zscore(base_key(used_up, "idle_queues"), "default")
    assert server_ms(used_up) - 60_000 < since_ms <= server_ms(used_up)
    recover()
    assert used_up.raw.zscore(base_key(used_up, "idle_queues"), "default") == since_ms
    note.enqueue(2)

    recover()

    assert used_up.raw.exists(base_key(used_up, "idle_queues")) == 0


def ready(_: Store) -> None:
    note.enqueue(1)


def urgent(_: Store) -> None:
    note.using(priority=1).enqueue(1)


def scheduled(_: Store) -> None:
    note.using(run_after=60).enqueue(1)


def running(_: Store) -> None:
    note.enqueue(1)
    new_fetcher().fetch("0", 1)


def came_back(store: Store) -> None:
    result = note.enqueue(1)
    new_fetcher(worker="dies").fetch("0", 1)
    end_lease(store, result.id)


def successful(_: Store) -> None:
    note.enqueue(1)
    work_off()


def cancelled(_: Store) -> None:
    note.using(run_after=60).enqueue(1).cancel()


def failed(_: Store) -> None:
    fail.enqueue()
    work_off()


def unregistered(_: Store) -> None:
    note.enqueue(1)
    known_tasks, registry.tasks = registry.tasks, {}
    work_off()
    registry.tasks = known_tasks


def paused(_: Store) -> None:
    note.enqueue(1)
    work_off()
    get_queue("default").pause()


def waiting(_: Store) -> None:
    chain(note.using(queue_name="mail").s(1), note.s()).enqueue()


def limited(_: Store) -> None:
    note.using(concurrency=1, queue_name="mail").enqueue(1)
    note.using(concurrency=1).enqueue(2)
    new_fetcher("mail", "default").fetch("0", 2)


@pytest.mark.parametrize(
    "something",
    [
        *(ready, urgent, scheduled, running, came_back, failed, unregistered, paused, waiting, limited),
        *(successful, cancelled),
    ],
)
def test_a_queue_that_is_not_empty_stays_in_the_index(store: Store, something: Any) -> None:
    something(store)
    idle_for(store, 2 * DAY_MS)

    recover()

    assert "default" in known(store)


def test_restoring_a_purge_adds_the_queue_to_the_index_again(store: Store) -> None:
    note.enqueue(1)
    purge = get_queue("default").purge()
    idle_for(store, 2 * DAY_MS)
    recover()
    assert known(store) == []

    get_queue("default").restore(purge)

    assert known(store) == ["default"]


def many_queues(store: Store, count: int) -> None:
    """Queues that were in use before those of the test."""
    store.raw.zadd(base_key(store, "queues"), {f"q{number:04}": number for number in range(count)})


@pytest.mark.parametrize("others", [499, 500, 1_234])
def test_one_round_maintains_all_queues(redis_server: Store, others: int) -> None:
    lost = note.enqueue(1)
    new_fetcher(worker="dies").fetch("0", 1)
    end_lease(redis_server, lost.id)
    due = note.using(run_after=60).enqueue(2)
    fall_due(redis_server, due, ms_ago=-1_500)
    many_queues(redis_server, others)
    redis_server.raw.zadd(queue_key(redis_server, "failed"), {"old": 1})
    poller = Poller(home(), connections.client())
    let_recovery_begin()

    next_round(poller)
    until_due_s = seconds_to_next_round(poller)

    assert redis_server.raw.lrange(queue_key(redis_server, "requeued"), 0, -1) == [lost.id.encode()]
    assert redis_server.raw.exists(queue_key(redis_server, "failed")) == 0
    assert until_due_s <= 1.5
    poller.close()


def test_removing_queues_during_a_round_skips_no_other_queue(redis_server: Store) -> None:
    note.enqueue(1)
    many_queues(redis_server, 1_100)
    long_ago_ms = server_ms(redis_server) - 2 * DAY_MS
    redis_server.raw.zadd(
        base_key(redis_server, "idle_queues"), {f"q{number:04}": long_ago_ms for number in range(0, 1_100, 2)}
    )
    redis_server.raw.zadd(queue_key(redis_server, "failed"), {"old": 1})
    poller = Poller(home(), connections.client())

    next_round(poller)

    assert len(known(redis_server)) == 551
    assert redis_server.raw.zcard(base_key(redis_server, "idle_queues")) == 550
    assert redis_server.raw.exists(queue_key(redis_server, "failed")) == 0
    poller.close()


def test_minutes_of_all_queues_are_rolled_up_once(redis_server: Store) -> None:
    many_queues(redis_server, 600)
    note.enqueue(1)
    work_off()
    minute = int(server_ms(redis_server)) // 60_000
    [key] = [each for each in redis_server.keys() if b":minute:" in each]  # noqa: SIM118 - a Store is no dict
    redis_server.raw.rename(key, queue_key(redis_server, f"minute:{minute - 1}"))
    for mark in ("rollup", "rollup:1"):
        redis_server.raw.set(base_key(redis_server, mark), minute - 2)

    for _ in range(2):
        poller = Poller(home(), connections.client())
        next_round(poller)
        poller.close()

    [hour] = [each for each in redis_server.keys() if b":hour:" in each]  # noqa: SIM118 - a Store is no dict
    minutes = redis_server.raw.get(queue_key(redis_server, f"minute:{minute - 1}"))
    assert redis_server.raw.get(hour) == minutes[: len(redis_server.raw.get(hour))]


def test_next_round_starts_at_once_after_two_hundred_expired_leases(redis_server: Store) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(201)])
    new_fetcher(worker="dies").fetch("0", 201)
    end_lease(redis_server, *[result.id for result in results])
    poller = Poller(home(), connections.client())
    let_recovery_begin()

    next_round(poller)
    assert seconds_to_next_round(poller) <= 0
    next_round(poller)
    assert seconds_to_next_round(poller) > 0

    assert redis_server.raw.llen(queue_key(redis_server, "requeued")) == 201
    poller.close()
