"""Waiting tasks of flows are listed while they wait."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import TaskResult, chain, get_queue, group
from django_redis_components.taskqueue.flows import enqueue as flow_enqueue
from django_redis_components.taskqueue.flows.graph import FlowGraph
from django_redis_components.taskqueue.flows.result import FlowResult
from tests.support import Store
from tests.taskqueue.support import base_key, end_lease, new_fetcher, queue_key, recover, work_off
from tests.taskqueue.tasks import add, echo, fail, note


def waiting(queue: str = "default") -> list[str]:
    """Ids of those that wait for others, as they are listed; the depth says the same."""
    ids = [job.id for job in get_queue(queue).tasks("waiting", limit=1_000)]
    assert get_queue(queue).info().waiting == len(ids)
    return ids


def ids_of(*results: TaskResult | None) -> list[str]:
    return [result.id for result in results if result is not None]


def test_waiting_tasks_are_listed_in_the_order_of_the_flow(store: Store) -> None:
    flow = chain(note.s("a"), *[note.si(number) for number in range(12)]).enqueue()

    jobs = get_queue("default").tasks("waiting", limit=5, offset=2)

    assert [job.id for job in jobs] == ids_of(*flow.results[3:8])
    assert {(job.state, job.flow_id) for job in jobs} == {("waiting", flow.id)}
    assert waiting() == ids_of(*flow.results[1:])
    assert get_queue("default").info().ready == 1


def test_waiting_task_is_listed_in_its_own_queue(store: Store) -> None:
    flow = chain(add.using(run_after=60).s(1, 2), note.using(queue_name="mail").s()).enqueue()

    assert waiting("mail") == ids_of(flow.last)
    assert waiting() == []
    assert store.raw.zscore(base_key(store, "queues"), "mail") is not None


def test_task_is_no_longer_listed_as_waiting_when_its_parents_have_finished(store: Store) -> None:
    flow = group(add.s(1, 2), add.s(3, 4)).then(note.s(), note.using(run_after=60).si("later")).enqueue()
    assert waiting() == ids_of(*flow.results[2:])

    work_off()

    assert waiting() == []
    assert store.raw.exists(queue_key(store, "waiting")) == 0


def lose(store: Store, flow: FlowResult) -> None:
    for number in range(3):
        new_fetcher(worker=f"dies:{number}").fetch("0", 1)
        end_lease(store, flow.results[0].id)
        recover()


def expire(store: Store, flow: FlowResult) -> None:
    store.raw.hset(base_key(store, "t", flow.results[0].id), "X", "1 60000")
    work_off()


def cancel(store: Store, flow: FlowResult) -> None:
    flow.results[0].cancel()


def cancel_all(store: Store, flow: FlowResult) -> None:
    assert flow.cancel() == 3


def cancel_a_waiting_one(store: Store, flow: FlowResult) -> None:
    flow.results[1].cancel()
    assert waiting() == []
    work_off()


@pytest.mark.parametrize("end", [lose, expire, cancel, cancel_all, cancel_a_waiting_one])
def test_follower_of_a_failed_parent_is_no_longer_listed_as_waiting(store: Store, end: Any) -> None:
    flow = chain(note.s("a"), note.si("b"), note.si("c")).enqueue(on_error=echo.s())
    assert waiting() == ids_of(*flow.results[1:], flow.on_error_result)

    end(store, flow)
    work_off()

    assert waiting() == []
    assert store.raw.exists(queue_key(store, "waiting")) == 0


def test_on_error_task_is_not_listed_after_the_flow_succeeded(store: Store) -> None:
    flow = chain(note.s("a")).enqueue(on_error=echo.using(queue_name="mail").s())
    assert waiting("mail") == ids_of(flow.on_error_result)

    work_off()

    assert waiting("mail") == []


def test_follower_is_listed_again_after_its_parent_is_retried(store: Store) -> None:
    flow = chain(fail.s(), note.si("b"), note.si("c")).enqueue()
    work_off()
    assert waiting() == []

    get_queue("default").retry_failed()

    assert waiting() == ids_of(*flow.results[1:])
    get_queue("default").retry_failed()
    flow.cancel()
    assert waiting() == []


def test_follower_of_a_deleted_failed_task_is_not_listed(store: Store) -> None:
    chain(fail.s(), note.si("b")).enqueue()
    work_off()

    get_queue("default").delete_failed()

    assert waiting() == []


def test_purge_skips_waiting_tasks_and_reports_them(store: Store) -> None:
    flow = chain(note.using(queue_name="other").s("a"), note.si("b")).enqueue()
    note.enqueue("purged")

    purge = get_queue("default").purge()

    assert (purge.count, purge.waiting) == (1, 1)
    assert waiting() == ids_of(flow.last)
    work_off("other")
    assert [job.id for job in work_off()] == ids_of(flow.last)


def test_followers_of_purged_parents_wait_until_the_purge_is_undone(store: Store) -> None:
    flow = chain(note.s("a"), note.si("b")).enqueue()

    purge = get_queue("default").purge()
    assert waiting() == ids_of(flow.last)
    get_queue("default").restore(purge)
    work_off()

    assert waiting() == []
    assert flow.get(0) == "b"


def test_large_flow_is_listed_once_complete(redis_server: Store) -> None:
    chain(*[note.si(number) for number in range(1_100)]).enqueue()

    assert get_queue("default").info().waiting == 1_099


def test_repeated_enqueue_of_a_flow_lists_each_task_once(store: Store) -> None:
    sent = flow_enqueue.prepare_flow(FlowGraph(chain(note.s("a"), note.si("b"))), flow_enqueue.Callbacks())
    run(connections.client(), flow_enqueue.enqueue_flow(sent))
    assert len(waiting()) == 1
    work_off()

    run(connections.client(), flow_enqueue.enqueue_flow(sent))

    assert waiting() == []
