"""A task with an expired lease runs again; the outcome of the expired lease is discarded."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.taskqueue import TaskFailed, get_queue
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.worker.execution import execute
from tests.support import Store, run_together
from tests.taskqueue.support import (
    base_key,
    end_lease,
    new_fetcher,
    queue_key,
    recover,
    renew,
    server_ms,
    settle_now,
    taskqueue_settings,
    work_off,
)
from tests.taskqueue.tasks import add, fail, note, recorded


def test_lease_lasts_for_the_configured_time(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, LEASE=2)
    note.enqueue(1)

    [job] = new_fetcher().fetch("0", 1)

    ends_ms = store.raw.zscore(queue_key(store, "running"), job.id)
    assert 0 < ends_ms - server_ms(store) <= 2_001


def test_task_with_an_expired_lease_returns_to_the_front(store: Store) -> None:
    result = note.enqueue("first")
    note.enqueue("second")
    new_fetcher(worker="dies").fetch("0", 1)
    assert recover() == [], "its lease has not ended"
    end_lease(store, result.id)

    assert recover() == [(result.id, "default", "requeued")]

    result.refresh()
    assert (result.state, result.worker_ids, result.errors) == ("ready", ["dies"], [])
    work_off(worker="lives")
    assert recorded == ["first", "second"]
    result.refresh()
    assert (result.state, result.worker_ids) == ("successful", ["dies", "lives"])
    assert (result.attempts, result.runs) == (1, 2), "a lost worker uses no attempt"


@pytest.mark.parametrize("moment", ["recovered", "running elsewhere", "finished elsewhere"])
def test_outcome_of_an_expired_lease_is_discarded(store: Store, caplog: pytest.LogCaptureFixture, moment: str) -> None:
    result = add.enqueue(2, 3)
    late = new_fetcher(worker="late")
    [job] = late.fetch("0", 1)
    end_lease(store, result.id)
    recover()
    other = new_fetcher(worker="other")
    if moment != "recovered":
        [again] = other.fetch("0", 1)
    if moment == "finished elsewhere":
        settle_now(other, Ack(again.id, again.token, "succeeded", b'"other"', ttl_ms=600_000))

    settle_now(late, Ack(job.id, job.token, "succeeded", b'"late"', ttl_ms=600_000))

    assert f"The outcome (succeeded) of task {result.id} was discarded: its lease had expired." in caplog.text
    assert late.leases == {}
    if moment == "running elsewhere":
        settle_now(other, Ack(again.id, again.token, "succeeded", b'"other"', ttl_ms=600_000))
    if moment == "recovered":
        work_off(worker="other")
    result.refresh()
    assert result.return_value == (5 if moment == "recovered" else "other")
    assert result.worker_ids == ["late", "other"]
    assert work_off() == []


def test_late_return_of_an_expired_lease_is_not_logged(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    result = add.enqueue(2, 3)
    late = new_fetcher(worker="late")
    [job] = late.fetch("0", 1)
    end_lease(store, result.id)
    recover()

    settle_now(late, Ack(job.id, job.token, "requeued"))

    assert "lease was lost" not in caplog.text
    assert store.raw.lrange(queue_key(store, "requeued"), 0, -1) == [result.id.encode()], "once"


def test_concurrent_outcomes_of_one_task_store_one_result(store: Store) -> None:
    results = add.enqueue_many([((2, 3), {})] * 20)
    slow = new_fetcher(worker="slow")
    jobs = slow.fetch("0", 20)
    end_lease(store, *[result.id for result in results])
    recover()
    quick = new_fetcher(worker="quick")
    again = [job for slot in range(20) for job in quick.fetch(str(slot), 1)]

    def finish(number: int) -> None:
        fetcher, mine, value = [(slow, jobs, b'"slow"'), (quick, again, b'"quick"')][number]
        settle_now(fetcher, *[Ack(job.id, job.token, "succeeded", value, ttl_ms=60_000) for job in mine])

    run_together(2, finish)

    assert {result.get(0) for result in results} == {"quick"}


LOST = (
    "Each worker that ran this task died, or lost its lease, and max_deliveries is reached."
    " Find out what kills the process: memory, a hard limit, a crash in C code."
)


def die_with(store: Store, task_id: str, worker: str) -> list[tuple[str, str, str]]:
    """A worker takes the task and is never heard of again."""
    [job] = new_fetcher(worker=worker).fetch("0", 1)
    assert job.id == task_id
    end_lease(store, task_id)
    return recover()


def test_task_that_kills_its_workers_fails_after_max_deliveries(store: Store) -> None:
    result = add.enqueue(2, 3)
    outcomes = [die_with(store, result.id, f"w{number}")[0][2] for number in range(3)]

    result.refresh()
    assert outcomes == ["requeued", "requeued", "failed"]
    assert (result.state, result.worker_ids) == ("failed", ["w0", "w1", "w2"])
    [error] = result.errors
    assert error.exception_class_path == "django_redis_components.taskqueue.exceptions.WorkerLost"
    assert (error.message, error.traceback) == (LOST, "")
    assert result.finished_at is not None
    assert get_queue("default").info().failed == 1
    for key in (base_key(store, "t", result.id), base_key(store, "t", result.id, "errors"), queue_key(store, "failed")):
        assert 604_000 < store.raw.ttl(key) <= 604_800
    with pytest.raises(TaskFailed, match="WorkerLost: Each worker that ran this task died"):
        result.get(0)


@pytest.mark.parametrize("deliveries", [1, 2, 5])
def test_max_deliveries_of_using_is_applied(redis_server: Store, deliveries: int) -> None:
    result = add.using(max_deliveries=deliveries).enqueue(2, 3)

    for number in range(deliveries):
        result.refresh()
        assert result.state == "ready"
        die_with(redis_server, result.id, f"w{number}")

    result.refresh()
    assert result.state == "failed"


def test_crashes_use_no_attempt_and_exceptions_no_delivery(redis_server: Store) -> None:
    result = fail.using(max_attempts=2, backoff=60, max_deliveries=2).enqueue("mine")
    die_with(redis_server, result.id, "dies")

    work_off(worker="w1")
    redis_server.raw.zadd(queue_key(redis_server, "scheduled"), {result.id: 1}, xx=True)
    result.refresh()
    assert result.state == "retrying"
    die_with(redis_server, result.id, "dies again")

    result.refresh()
    assert [error.message for error in result.errors] == ["mine", LOST]
    assert result.worker_ids == ["dies", "w1", "dies again"]


def test_get_returns_when_the_last_delivery_crashed(store: Store) -> None:
    result = add.using(max_deliveries=1).enqueue(2, 3)
    store.raw.hset(base_key(store, "t", result.id), "W", 1)

    die_with(store, result.id, "w")

    assert store.raw.lrange(base_key(store, "t", result.id, "done"), 0, -1) == [b"1"]


def test_returned_task_uses_no_attempt_and_no_delivery(store: Store) -> None:
    result = add.enqueue(2, 3)
    worker = new_fetcher(worker="stops")
    [job] = worker.fetch("0", 1)

    settle_now(worker, Ack(job.id, job.token, "requeued"))

    result.refresh()
    assert (result.state, result.worker_ids, result.attempts) == ("ready", [], 0)
    [again] = new_fetcher(worker="goes on").fetch("0", 1)
    assert (again.id, again.attempts, again.runs) == (result.id, 0, 0)


def test_lease_without_a_record_is_removed(store: Store) -> None:
    result = add.enqueue(2, 3)
    new_fetcher().fetch("0", 1)
    store.raw.delete(base_key(store, "t", result.id))
    end_lease(store, result.id)

    assert recover() == []
    assert store.raw.zcard(queue_key(store, "running")) == 0


def test_renewed_lease_does_not_expire(store: Store) -> None:
    note.enqueue_many([((1,), {}), ((2,), {})])
    fetcher = new_fetcher(worker="w")
    fetcher.fetch("0", 2)

    assert renew("w", fetcher.leases) == []

    for ends_ms in dict(store.raw.zrange(queue_key(store, "running"), 0, -1, withscores=True)).values():
        assert 25_000 < ends_ms - server_ms(store) <= 30_001
    assert 0 < store.raw.pttl(base_key(store, "worker", "w")) <= 30_000 * 40
    assert store.raw.zrange(base_key(store, "workers"), 0, -1) == [b"w"]


def test_renewal_reports_lost_leases(store: Store) -> None:
    done, lost, kept = note.enqueue_many([((number,), {}) for number in range(3)])
    fetcher = new_fetcher(worker="w")
    jobs = fetcher.fetch("0", 3)
    held = dict(fetcher.leases)
    settle_now(fetcher, execute(jobs[0]))
    end_lease(store, lost.id)
    recover()
    new_fetcher(worker="other").fetch("0", 1)
    others = store.raw.zscore(queue_key(store, "running"), lost.id)

    assert renew("w", held, lease_ms=900_000) == [done.id, lost.id]

    assert store.raw.zscore(queue_key(store, "running"), lost.id) == others, "the other worker's lease is its own"
    assert store.raw.zscore(queue_key(store, "running"), done.id) is None
    assert store.raw.zscore(queue_key(store, "running"), kept.id) > server_ms(store) + 800_000
