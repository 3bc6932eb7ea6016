"""Failed and unregistered tasks are retried and deleted, by id and in bulk."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import TaskResultDoesNotExist, get_queue
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store import control
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.task import Task
from tests.support import Store, run_async, run_together
from tests.taskqueue.store.support import WEEK_S, counts, fail_many, ids, park_many
from tests.taskqueue.support import base_key, new_fetcher, queue_key, settle_now, work_off
from tests.taskqueue.tasks import fail, fail_thrice, note, recorded


def test_retry_failed_requeues_all_in_the_order_of_their_failures(store: Store) -> None:
    results = [fail.enqueue(str(number)) for number in range(4)]
    work_off()

    assert get_queue("default").retry_failed() == 4

    assert counts() == (4, 0, 0)
    assert [job.id for job in work_off()] == ids(results)
    results[0].refresh()
    assert [error.message for error in results[0].errors] == ["0", "0"]
    assert (results[0].attempts, results[0].runs) == (1, 2)


def test_retry_failed_with_ids_requeues_only_these(store: Store) -> None:
    results = fail_many(5)

    done = get_queue("default").retry_failed([results[3].id, results[1].id, "unheard-of", results[1].id])

    assert done == 2
    assert counts() == (2, 3, 0)
    assert [job.id for job in work_off()] == [results[3].id, results[1].id]


def test_retried_task_has_all_its_attempts(store: Store) -> None:
    result = fail_thrice.using(backoff=0).enqueue()
    while work_off():
        pass
    result.refresh()
    assert (result.state, len(result.errors)) == ("failed", 3)

    get_queue("default").retry_failed([result.id])

    result.refresh()
    assert (result.state, result.status, result.finished_at) == ("ready", "READY", None)
    while work_off():
        pass
    result.refresh()
    assert (result.state, len(result.errors)) == ("failed", 6)


def test_record_of_a_retried_task_has_no_ttl_until_it_finishes(store: Store) -> None:
    [result] = fail_many(1)
    key = base_key(store, "t", result.id)
    assert WEEK_S - 60 < store.raw.ttl(key) <= WEEK_S

    get_queue("default").retry_failed()

    assert store.raw.ttl(key) == -1


def test_retried_task_keeps_its_priority(store: Store) -> None:
    note.enqueue("plain")
    [urgent] = fail_many(1, priority=5)
    note.enqueue("plain")

    get_queue("default").retry_failed()

    assert next(iter(work_off())).id == urgent.id


def test_retry_notifies_workers(store: Store) -> None:
    fail_many(2)
    store.raw.delete(base_key(store, "wakeup", "q:default"))

    get_queue("default").retry_failed()

    assert store.raw.exists(base_key(store, "wakeup", "q:default"))


@pytest.mark.parametrize("verb", ["retry_failed", "delete_failed"])
def test_bulk_operations_process_all_tasks_in_chunks(store: Store, verb: str) -> None:
    fail_many(1_200)

    assert getattr(get_queue("default"), verb)() == 1_200

    assert counts() == (1_200 if verb == "retry_failed" else 0, 0, 0)


@pytest.mark.parametrize("verb", ["retry_failed", "delete_failed"])
def test_long_lists_of_ids_are_processed_in_chunks(redis_server: Store, verb: str) -> None:
    results = fail_many(1_200)

    assert getattr(get_queue("default"), verb)(ids(results)) == 1_200

    assert counts()[1] == 0


@pytest.mark.parametrize("verb", ["retry_failed", "delete_failed"])
def test_concurrent_operations_process_each_task_once(store: Store, verb: str) -> None:
    fail_many(700)

    done = run_together(4, getattr(get_queue("default"), verb))

    assert sum(done) == 700
    assert counts() == (700 if verb == "retry_failed" else 0, 0, 0)


@pytest.mark.parametrize("verb", ["retry_failed", "delete_failed"])
def test_task_that_fails_after_the_call_is_unchanged(store: Store, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "CHUNK", 2)
    fail_many(5)
    late = note.enqueue_many([((number,), {}) for number in range(3)])
    leased = new_fetcher(worker="fails:late").fetch("0", 3)
    flow = (
        control.retry_failed(home(), "default", None)
        if verb == "retry_failed"
        else control.delete_tasks(home(), "default", "failed", None)
    )

    def with_failures_between() -> Any:
        """The flow, and a further failure after each of its requests."""
        request = next(flow)
        try:
            while True:
                reply = yield request
                if leased:
                    job = leased.pop()
                    settle_now(new_fetcher(worker="fails:late"), Ack(job.id, job.token, "failed", b"{}", ttl_ms=60_000))
                request = flow.send(reply)
        except StopIteration as stop:
            return stop.value

    assert run(connections.client(), with_failures_between()) == 5

    failed = get_queue("default").tasks("failed")
    assert {result.id for result in failed} == {result.id for result in late}


def test_deleted_tasks_leave_no_key(store: Store) -> None:
    results = fail_many(3)

    assert get_queue("default").delete_failed([results[0].id, "unheard-of"]) == 1
    assert get_queue("default").delete_failed() == 2

    with pytest.raises(TaskResultDoesNotExist):
        results[0].refresh()
    assert list(store.raw.scan_iter(match=base_key(store, "t", "*"))) == []
    assert store.raw.exists(queue_key(store, "failed")) == 0


def test_unregistered_tasks_are_deleted_by_id_and_in_bulk(store: Store) -> None:
    results = park_many(4)
    failed = fail_many(1)
    queue = get_queue("default")

    assert queue.delete_unregistered([results[2].id, failed[0].id]) == 1
    assert counts() == (0, 1, 3)
    assert queue.delete_unregistered() == 3
    assert counts() == (0, 1, 0)


def test_tasks_of_another_queue_are_unchanged(store: Store) -> None:
    [result] = fail_many(1, queue="mail")

    assert get_queue("default").retry_failed([result.id]) == 0
    assert get_queue("default").delete_failed([result.id]) == 0
    assert get_queue("default").retry_failed() == 0

    assert counts("mail") == (0, 1, 0)


def test_task_without_a_record_is_skipped(store: Store) -> None:
    gone, kept = fail_many(2)
    store.raw.delete(base_key(store, "t", gone.id))

    assert get_queue("default").retry_failed() == 1

    assert [job.id for job in work_off()] == [kept.id]


def test_task_that_runs_again_is_neither_deleted_nor_retried(store: Store) -> None:
    [result] = fail_many(1)
    queue = get_queue("default")
    queue.retry_failed()
    new_fetcher().fetch("0", 1)

    assert queue.retry_failed([result.id]) == queue.delete_failed([result.id]) == 0

    result.refresh()
    assert result.state == "running"


@pytest.mark.parametrize("verb", ["retry_failed", "delete_failed", "delete_unregistered"])
@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("abc", r"^ids='abc': expected an iterable of task ids, or None for all\.$"),
        (7, r"^ids=7: expected an iterable of task ids, or None for all\.$"),
        ([7], r"^id=7: expected a string\.$"),
    ],
)
def test_invalid_ids_raise(redis_server: Store, verb: str, given: Any, text: str) -> None:
    fail_many(1)

    with pytest.raises(TypeError, match=text):
        getattr(get_queue("default"), verb)(given)

    assert counts() == (0, 1, 0)


@pytest.mark.parametrize("verb", ["retry_failed", "delete_failed", "delete_unregistered"])
def test_empty_list_of_ids_matches_no_task(redis_server: Store, verb: str) -> None:
    fail_many(1)
    park_many(1)

    assert getattr(get_queue("default"), verb)([]) == 0

    assert counts() == (0, 1, 1)


def test_ids_may_be_a_generator(redis_server: Store) -> None:
    results = fail_many(2)

    assert get_queue("default").retry_failed(result.id for result in results) == 2


def test_retried_tasks_can_be_cancelled_and_are_counted(store: Store) -> None:
    results = fail_many(3)
    get_queue("default").purge()  # at a time when they were not in the queue
    get_queue("default").retry_failed()

    results[1].cancel()

    assert counts() == (2, 0, 0)
    assert {job.id for job in work_off()} == {results[0].id, results[2].id}


def test_async_methods_return_the_same(store: Store) -> None:
    failed, unregistered = fail_many(3), park_many(2)
    queue = get_queue("default")

    async def act() -> list[int]:
        return [
            await queue.aretry_failed([failed[0].id]),
            await queue.adelete_failed([failed[1].id]),
            await queue.adelete_unregistered([unregistered[0].id]),
        ]

    assert run_async(act) == [1, 1, 1]
    assert counts() == (1, 1, 1)
    assert recorded == []


@pytest.mark.parametrize("state", ["failed", "unregistered"])
def test_deleted_tasks_are_restored_from_trash_in_order(state: str, store: Store) -> None:
    results = fail_many(1_100, unique=True) if state == "failed" else park_many(1_100)
    last = results[-1]
    part = queue_key(store, state)
    before = store.raw.zrange(part, 0, -1, withscores=True)
    (_, seen_ms) = before[-2]

    deleted = run(connections.client(), control.delete_tasks(home(), "default", state, None, f"{seen_ms:.3f}", "bin"))

    assert deleted == store.raw.zcard(base_key(store) + f":trash:bin:{state}")
    assert store.raw.zrange(part, 0, -1) == [each for each, score in before if score > float(f"{seen_ms:.3f}")]
    last.refresh()
    assert get_queue("default").restore("bin") == deleted
    assert store.raw.zrange(part, 0, -1, withscores=True) == before
    assert get_queue("default").restore("bin") == 0


def test_deleted_unregistered_task_in_trash_frees_its_unique_key(store: Store) -> None:
    stranger: Task[..., Any, Any] = Task(func=note.func, name="unknown.task", declared_options=note.options)
    first = stranger.using(unique=True).enqueue("a")
    work_off()
    run(connections.client(), control.delete_tasks(home(), "default", "unregistered", [first.id], trash="bin"))

    second = stranger.using(unique=True).enqueue("a")
    first.cancel()

    assert second.id != first.id
    assert counts() == (1, 0, 0)
    assert get_queue("default").restore("bin") == 0


def test_ids_that_fail_again_after_the_watermark_are_not_selected(store: Store) -> None:
    result = fail.enqueue("x")
    work_off()
    [(_, failed_ms)] = store.raw.zrange(queue_key(store, "failed"), 0, -1, withscores=True)
    client = connections.client()

    early = f"{failed_ms - 1:.3f}"
    assert run(client, control.retry_failed(home(), "default", [result.id], early)) == 0
    assert run(client, control.delete_tasks(home(), "default", "failed", [result.id], early)) == 0
    assert run(client, control.retry_failed(home(), "default", [result.id], f"{failed_ms:.3f}")) == 1
