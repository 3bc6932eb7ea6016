"""Cancelling a running task: it is interrupted, and does not run again whatever its outcome."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection

from django_redis_components.core.client import connections
from django_redis_components.taskqueue import (
    TaskFailed,
    TaskResult,
    get_queue,
)
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.worker.execution import cancelled, execute
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from django_redis_components.taskqueue.worker.interruption import ThreadRun
from django_redis_components.taskqueue.worker.worker import Worker
from tests.support import Proxy, Store, eventually, run_async
from tests.taskqueue.support import (
    Held,
    base_key,
    end_lease,
    new_fetcher,
    queue_key,
    recover,
    renewal,
    running_worker,
    settle_now,
    work_off,
)
from tests.taskqueue.tasks import add, fail, give_up, hold, hold_async, note, query

pytestmark = pytest.mark.integration

#: An error as it is kept.
ERROR = b'{"exception_class_path": "builtins.LookupError", "message": "", "traceback": ""}'
#: A worker's id: its supervisor's, and its own.
WORKER = "web.example.com:5up.ch1"


def leased(result: TaskResult, worker: str = WORKER) -> tuple[Fetcher, Job]:
    fetcher = new_fetcher(worker=worker)
    [job] = fetcher.fetch("0", 1)
    assert job.id == result.id
    return fetcher, job


def asked_to_end(fetcher: Fetcher) -> dict[str, float]:
    """What a heartbeat tells: tasks that shall end, and the milliseconds that they have."""
    leases = [part for pair in fetcher.leases.items() for part in pair]
    call = renewal(WORKER, leases, lease_ms=15_000)
    _, asked, *_ = connections.client().execute(call)
    return {task_id.decode(): left_ms for task_id, left_ms in zip(asked[::2], asked[1::2], strict=True)}


def test_cancel_of_a_running_task_notifies_its_supervisor(store: Store) -> None:
    result = note.enqueue("runs")
    fetcher, _ = leased(result)
    assert asked_to_end(fetcher) == {}

    assert result.cancel(force_after=5) is True

    result.refresh()
    assert result.state == "running"
    assert store.raw.zcard(base_key(store, "wakeup", "s:web.example.com:5up")) == 1
    assert 0 < store.raw.pttl(base_key(store, "wakeup", "s:web.example.com:5up")) <= 60_000
    left = asked_to_end(fetcher)
    assert list(left) == [result.id]
    assert 0 < left[result.id] <= 5_000


def test_repeated_cancel_can_only_shorten_the_grace(store: Store) -> None:
    result = note.enqueue("runs")
    fetcher, _ = leased(result)

    result.cancel(force_after=100)
    result.cancel(force_after=2)
    result.cancel()

    assert 0 < asked_to_end(fetcher)[result.id] <= 2_000
    result.cancel(force_after=0)
    assert asked_to_end(fetcher)[result.id] == 0


@pytest.mark.parametrize("outcome", ["retried", "delayed", "requeued", "unregistered"])
def test_cancelled_run_that_would_run_again_is_cancelled(store: Store, outcome: str) -> None:
    result = note.enqueue("runs")
    fetcher, job = leased(result)
    failures: list[str] = []
    waiting = threading.Thread(target=lambda: failures.append(_failure(result)))
    waiting.start()
    eventually(lambda: store.raw.hget(base_key(store, "t", result.id), "W"))
    other = TaskResult(note, note.name, result.id, home(), {})
    other.cancel()

    settle_now(fetcher, Ack(job.id, job.token, outcome, ERROR if outcome == "retried" else b"", 50, 60_000))

    waiting.join(60)
    assert "was cancelled" in failures[0]
    other.refresh()
    assert (other.state, other.status, other.worker_ids) == ("cancelled", "FAILED", [WORKER] * (outcome == "retried"))
    assert other.finished_at is not None
    assert 590 < store.raw.ttl(base_key(store, "t", result.id)) <= 600
    assert store.raw.llen(base_key(store, "t", result.id, "errors")) == (outcome == "retried")
    depth = get_queue("default").info()
    assert (depth.ready, depth.scheduled, depth.running, depth.unregistered) == (0, 0, 0, 0)


def _failure(result: TaskResult) -> str:
    with pytest.raises(TaskFailed) as raised:
        result.get(60)
    return str(raised.value)


@pytest.mark.parametrize(("outcome", "state"), [("succeeded", "successful"), ("failed", "failed")])
def test_task_that_finishes_before_the_cancellation_keeps_its_outcome(store: Store, outcome: str, state: str) -> None:
    result = note.enqueue("runs")
    fetcher, job = leased(result)
    result.cancel()

    settle_now(fetcher, Ack(job.id, job.token, outcome, b"{}", ttl_ms=60_000))

    result.refresh()
    assert result.state == state
    assert result.cancel() is False


def test_cancelled_task_of_a_dead_worker_is_not_recovered(store: Store) -> None:
    result = note.enqueue("runs")
    leased(result)
    result.cancel()
    end_lease(store, result.id)

    assert recover() == [(result.id, "default", "cancelled")]

    result.refresh()
    assert (result.state, result.worker_ids) == ("cancelled", [WORKER])
    assert work_off() == []


def test_outcome_of_a_cancelled_run_is_applied_once(store: Store) -> None:
    result = note.enqueue("runs")
    fetcher, job = leased(result)
    result.cancel()

    settle_now(fetcher, cancelled(job.id, job.token))
    result.refresh()
    finished_at = result.finished_at
    settle_now(fetcher, cancelled(job.id, job.token), Ack(job.id, job.token, "succeeded", b"1", ttl_ms=1_000))

    result.refresh()
    assert (result.state, result.finished_at, result.worker_ids) == ("cancelled", finished_at, [WORKER])
    assert result.cancel() is True


def test_retry_clears_the_request_to_cancel(store: Store) -> None:
    result = fail.using(max_attempts=5, backoff=0).enqueue()
    fetcher, job = leased(result)
    result.cancel()
    settle_now(fetcher, Ack(job.id, job.token, "failed", b"{}", ttl_ms=60_000))

    assert get_queue("default").retry_failed([result.id]) == 1
    fetcher, job = leased(result, "next:1")
    assert asked_to_end(fetcher) == {}
    settle_now(fetcher, Ack(job.id, job.token, "retried", b"{}", 3_600_000, 60_000))

    result.refresh()
    assert result.state == "retrying"


def test_cancellation_releases_the_unique_key(store: Store) -> None:
    once = note.using(unique=True)
    result = once.enqueue("same")
    fetcher, job = leased(result)
    assert once.enqueue("same").id == result.id
    result.cancel()
    assert once.enqueue("same").id == result.id, "it may still run"

    settle_now(fetcher, cancelled(job.id, job.token))

    assert once.enqueue("same").id != result.id


def test_cancel_is_repeated_after_a_lost_reply(redis_server: Store, proxy: Proxy) -> None:
    result = note.enqueue("runs")
    fetcher, _ = leased(result)
    proxy.drop_next_reply()

    assert TaskResult(note, note.name, result.id, home("proxied"), {}).cancel(force_after=3) is True

    assert 0 < asked_to_end(fetcher)[result.id] <= 3_000


def test_acancel_requests_the_cancellation(redis_server: Store) -> None:
    result = note.enqueue("runs")
    fetcher, _ = leased(result)

    assert run_async(lambda: result.acancel(force_after=1)) is True

    assert result.id in asked_to_end(fetcher)


def test_invalid_force_after_is_refused(redis_server: Store) -> None:
    result = note.enqueue("runs")

    with pytest.raises(
        ValueError, match=r"^force_after=-1: expected a number of seconds of at least 0, or a timedelta"
    ):
        result.cancel(force_after=-1)

    result.refresh()
    assert result.state == "ready"


def cancel_in(worker: Worker, result: TaskResult) -> None:
    """What the supervisor's order does."""
    result.cancel()
    worker.cancel(result.id, worker.fetcher.leases[result.id])


@pytest.mark.parametrize("kind", [hold, hold_async])
def test_cancelled_run_is_interrupted_and_the_worker_continues(redis_server: Store, kind: Any) -> None:
    held = Held(redis_server, "0")
    with running_worker(worker="here.1:1") as worker:
        result = kind.enqueue("0")
        held.started()

        cancel_in(worker, result)

        assert "was cancelled" in _failure(result)
        assert (result.state, result.worker_ids, result.errors) == ("cancelled", ["here.1:1"], [])
        assert add.enqueue(2, 3).get(60) == 5
        assert worker.busy() == 0
    assert held.ends() == 0
    assert redis_server.raw.zcard(queue_key(redis_server, "failed")) == 0


def test_another_lease_of_the_same_task_is_not_interrupted(redis_server: Store) -> None:
    held = Held(redis_server, "0")
    with running_worker() as worker:
        result = hold.enqueue("0")
        held.started()

        worker.cancel(result.id, "an older lease")
        worker.cancel("another", worker.fetcher.leases[result.id])

        assert not worker.is_running(result.id, "an older lease")
        assert worker.is_running(result.id, worker.fetcher.leases[result.id])
        held.release()
        assert result.get(60) == "0"


def test_task_may_raise_cancelled_itself(redis_server: Store) -> None:
    result = give_up.using(max_attempts=3).enqueue()

    work_off()

    result.refresh()
    assert (result.state, result.attempts, result.runs) == ("cancelled", 0, 1)


@pytest.mark.django_db(transaction=True)
def test_after_an_interruption_no_database_connection_is_used_again(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have read a part of a reply."""
    query.enqueue()
    [job] = new_fetcher().fetch("0", 1)
    run = ThreadRun(job)
    connection.ensure_connection()
    used = connection.connection

    real_call = run.call

    def interrupted(*args: Any) -> Any:
        run.interrupted = True
        return real_call(*args)

    monkeypatch.setattr(run, "call", interrupted)
    execute(job, run)

    assert used is not None
    assert connection.connection is None
