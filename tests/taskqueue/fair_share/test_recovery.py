"""Tasks of groups after a lost reply, the death of a worker, and beside processes of a version without groups."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from django_redis_components.taskqueue import get_queue
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.worker.execution import execute
from tests.support import Proxy, Store, eventually
from tests.support.processes import Children
from tests.taskqueue.fair_share.support import send, serve, take, words_of
from tests.taskqueue.support import (
    Held,
    base_key,
    kill_processes,
    new_fetcher,
    processes_of,
    queue_key,
    queue_worker,
    recover,
    settle_now,
    taskqueue_settings,
    work_off,
)
from tests.taskqueue.tasks import hold, recorded

far_serve = dataclasses.replace(serve, connection="proxied")


@pytest.fixture
def warm(proxy: Proxy, redis_server: Store) -> Proxy:
    """A proxy whose server knows the scripts already."""
    far_serve.enqueue("warm")
    queue = get_queue("default")
    queue.pause_group("none")
    queue.resume_group("none")
    work_off()
    recorded.clear()
    return proxy


def test_repeated_enqueue_creates_one_task_and_one_turn(warm: Proxy, redis_server: Store) -> None:
    warm.drop_next_reply(after=home().base.encode())

    far_serve.enqueue("a", 1)

    assert warm.dropped == 1
    assert redis_server.raw.zcard(queue_key(redis_server, "grouped")) == 1
    assert take() == ["a1"]


def test_repeated_fetch_returns_the_same_tasks_and_uses_no_other_turn(warm: Proxy, redis_server: Store) -> None:
    send("a1 a2 b1 b2")
    fetcher = new_fetcher(using="proxied", worker="far:1")
    warm.drop_next_reply(after=b"far:1")

    jobs = fetcher.fetch("0", 2)

    assert warm.dropped == 1
    assert words_of(jobs) == ["a1", "b1"]
    assert take() == ["a2", "b2"]


def test_repeated_resume_of_a_group_is_applied_once(warm: Proxy, redis_server: Store) -> None:
    get_queue("default").pause_group("a")
    warm.drop_next_reply(after=home().base.encode())

    assert get_queue("default", using="proxied").resume_group("a")
    assert warm.dropped == 1


@pytest.mark.unmeasured
def test_tasks_of_a_killed_worker_run_first_and_the_turns_go_on(
    redis_server: Store, children: Children, settings: Any
) -> None:
    taskqueue_settings(settings, LEASE=1)
    doomed = queue_worker(children, "--no-poller")
    first = Held(redis_server, "a")
    held = hold.using(fair="{name}").enqueue("a")
    first.started()

    kill_processes([doomed.pid, *processes_of(doomed.pid)])
    first.release()
    send("a1 a2 b1")

    def is_recovered() -> bool:
        recover()
        return bool(redis_server.raw.llen(queue_key(redis_server, "requeued")))

    eventually(is_recovered)
    fetcher = new_fetcher()
    jobs = fetcher.fetch("0", 9)
    assert [job.id for job in jobs] == [held.id]  # alone, since a worker has died with it
    assert take() == ["a1", "b1", "a2"]


def test_worker_that_dies_between_fetch_and_outcome_loses_no_task(store: Store) -> None:
    send("a1 a2 b1")
    new_fetcher(worker="dies:1").fetch("0", 2)
    for task_id in store.raw.zrange(queue_key(store, "running"), 0, -1):
        store.raw.zadd(queue_key(store, "running"), {task_id: 1})

    recover()
    work_off()

    assert sorted(recorded) == ["a1", "a2", "b1"]


def test_tasks_that_other_versions_put_into_lists_enter_their_groups(store: Store) -> None:
    """A version without groups retries failed tasks into `ready` or `priority`, and recovers them into `requeued`."""
    results = send("a1 a2 a3 a4 b1 b2 b3")
    for result in results:
        result.refresh()
    store.raw.delete(queue_key(store, "grouped"), queue_key(store, "turns"))
    a1, a2, a3, a4, b1, b2, b3 = (result.id for result in results)
    store.raw.rpush(queue_key(store, "ready"), a1, a2, a3, b1)
    store.raw.zadd(queue_key(store, "priority"), {a4: -5e13, b2: 5e13})
    store.raw.rpush(queue_key(store, "requeued"), b3)

    assert take(1) == ["b3"]
    assert take() == ["a1", "b1", "a2", "b2", "a3", "a4"]
    assert not store.raw.exists(queue_key(store, "grouped"), queue_key(store, "turns"))


def test_more_strays_than_one_call_moves_are_all_served(store: Store) -> None:
    results = send(f"{group}{number}" for group in "ab" for number in range(600))
    store.raw.delete(queue_key(store, "grouped"), queue_key(store, "turns"))
    store.raw.rpush(queue_key(store, "ready"), *[result.id for result in results])
    fetcher = new_fetcher()

    words: list[str] = []
    while len(words) < 1_200:
        jobs = fetcher.fetch("0", 100)
        words += words_of(jobs)
        settle_now(fetcher, *map(execute, jobs))

    assert sorted(words) == sorted(f"{group}{number}" for group in "ab" for number in range(600))
    assert get_queue("default").info().ready == 0


def test_cancellation_by_another_version_is_passed_over(store: Store) -> None:
    """It finds the task in no zset that it knows, so it counts a tombstone and leaves the entry."""
    first, *_ = send("a1 a2 b1")
    store.raw.hset(base_key(store, "t", first.id), "s", "cancelled")
    store.raw.incr(queue_key(store, "tombstones"))

    assert take() == ["a2", "b1"]
    assert not store.raw.exists(queue_key(store, "tombstones"))


def test_poller_notifies_a_queue_whose_wakeup_another_version_has_received(store: Store) -> None:
    send("a1")
    wakeup = base_key(store, "wakeup:q:default")
    assert store.raw.delete(wakeup)

    recover()

    assert store.raw.exists(wakeup)
