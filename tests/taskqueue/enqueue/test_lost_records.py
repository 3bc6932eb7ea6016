"""A deleted or evicted record blocks no other task and leaves no keys."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.taskqueue import TaskResult, chain
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.worker.execution import execute
from tests.support import Store, eventually
from tests.taskqueue.support import base_key, new_fetcher, queue_key, recover, settle_now, work_off
from tests.taskqueue.tasks import note, recorded


def delete(store: Store, result: TaskResult) -> None:
    assert store.raw.delete(base_key(store, "t", result.id)) == 1


def has_record(store: Store, result: TaskResult) -> bool:
    return bool(store.raw.exists(base_key(store, "t", result.id)))


def sent(count: int, **options: Any) -> list[TaskResult]:
    return [note.using(**options).enqueue(number) for number in range(count)]


@pytest.mark.parametrize("lost", [1, 2, 4], ids=["the one that is called", "the next one", "the last one"])
def test_lost_task_waiting_for_a_rate_blocks_no_other(store: Store, lost: int) -> None:
    results = sent(5, rate=(1, 0.1))
    work_off()

    delete(store, results[lost])

    def others_have_run() -> bool:
        recover()  # a poller's round
        work_off()
        return recorded == [number for number in range(5) if number != lost]

    eventually(others_have_run)
    assert not has_record(store, results[lost])
    assert store.raw.exists(queue_key(store, "limited"), queue_key(store, "scheduled")) == 0


def test_lost_task_waiting_for_a_slot_is_skipped(store: Store) -> None:
    results = sent(4, concurrency=1)
    fetcher = new_fetcher(worker="w")
    [job] = fetcher.fetch("0", 3)

    delete(store, results[1])
    settle_now(fetcher, execute(job))
    work_off()

    assert recorded == [0, 2, 3]
    assert not has_record(store, results[1])


def test_slot_of_a_lost_task_is_released(store: Store) -> None:
    results = sent(3, concurrency=1)
    fetcher = new_fetcher(worker="w")
    [job] = fetcher.fetch("0", 3)

    delete(store, results[0])
    settle_now(fetcher, Ack(job.id, job.token, "succeeded", b"0", ttl_ms=1_000))
    work_off()
    assert recorded == []
    recover()
    work_off()

    assert recorded == [1, 2]


def test_lost_task_far_back_in_a_limit_queue_is_removed(store: Store) -> None:
    results = sent(3, rate="1/h")
    work_off()

    delete(store, results[2])
    recover()

    assert store.raw.exists(queue_key(store, "limited")) == 0


def test_stored_state_of_a_lost_task_is_deleted(store: Store) -> None:
    [result] = sent(1)
    delete(store, result)
    store.raw.hset(base_key(store, "t", result.id), "s", "ready")

    work_off()

    assert not has_record(store, result)


def test_tasks_behind_a_lost_task_of_a_flow_wait_no_more(store: Store) -> None:
    flow = chain(note.s(1), note.si(2), note.si(3)).enqueue()

    delete(store, flow.results[1])
    recover()

    assert store.raw.zrange(queue_key(store, "waiting"), 0, -1) == []
    flow.results[2].refresh()
    assert flow.results[2].state == "failed"
