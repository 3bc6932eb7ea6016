"""Prefetching keeps no task from an idle worker and delays no urgent one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_redis_components.taskqueue import Task, get_queue
from django_redis_components.taskqueue.worker import prefetch
from django_redis_components.taskqueue.worker import worker as worker_module
from tests.support import Store, eventually
from tests.taskqueue.support import Held, running_worker
from tests.taskqueue.tasks import hold, nap, note, note_and_send, recorded

#: Short tasks behind a long one.
SHORT = 100


@pytest.fixture
def long(redis_server: Store) -> Iterator[Held]:
    """The long tasks; released at the end, so that their threads end."""
    held = Held(redis_server, "long")
    yield held
    held.release()


def make_quick(worker: worker_module.Worker) -> None:
    """Let the worker believe that all tasks are quick, so that it fetches ahead; a slow one does not change that."""
    worker.job_source.amount.mean_s = 0.0
    worker.job_source.amount.record_run = lambda *_: None  # type: ignore[method-assign]


def test_idle_worker_runs_short_tasks_queued_behind_long_ones(redis_server: Store, long: Held) -> None:
    """Both threads of the first are busy for long, and it had fetched all there was."""
    with running_worker(threads=2, worker="busy:1") as busy:
        make_quick(busy)
        hold.enqueue("long")
        long.started()
        short = note.enqueue_many([((number,), {}) for number in range(SHORT // 2)])
        hold.enqueue("long")
        short += note.enqueue_many([((number,), {}) for number in range(SHORT // 2, SHORT)])
        long.started(times=2)

        with running_worker(threads=2, worker="idle:1"):
            eventually(lambda: len(recorded) == SHORT)

        assert long.ends() == 0
        workers = [(result.refresh(), result.worker_ids[-1])[1] for result in short]
        assert "idle:1" in workers[SHORT // 2 :], "the busy one could not have run the last ones"
        assert {result.attempts for result in short} == {1}
        long.release()
        eventually(lambda: busy.busy() == 0)


def test_slower_tasks_stay_available_to_an_idle_worker(
    redis_server: Store, long: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads, one long task, and a hundred that were fetched ahead because the last ones took microseconds."""
    monkeypatch.setattr(prefetch, "MAX_BUFFERED_S", 60.0)  # no job stands that long before the others
    with running_worker(threads=2, worker="busy:1") as busy:
        hold.enqueue("long")
        long.started()
        get_queue("default").pause()
        short = nap.enqueue_many([((0.03,), {})] * SHORT)
        busy.job_source.amount.mean_s = 0.00001
        get_queue("default").resume()
        eventually(lambda: len(busy.fetcher.leases) > SHORT / 2)

        with running_worker(threads=2, worker="idle:1"):
            for result in short:
                result.get(60)

        assert long.ends() == 0
        assert {result.worker_ids[-1] for result in short} == {"busy:1", "idle:1"}
        assert {result.attempts for result in short} == {1}
        long.release()
        eventually(lambda: busy.busy() == 0)


@pytest.mark.parametrize(
    "urgent",
    [{"queue_name": "first"}, {"priority": 50}, {"run_after": 0.001}],
    ids=["an earlier queue", "a priority", "a time that has come"],
)
def test_an_urgent_task_waits_for_one_running_task_at_most(redis_server: Store, urgent: dict[str, object]) -> None:
    """The fifth task sends it, and runs on for a while; nothing may come between."""
    sender: Task[..., None] = note_and_send.using(queue_name="second")
    options = {"queue_name": "second"} | urgent
    for number in range(20):
        sender.enqueue(number, options if number == 5 else None)

    with running_worker("first", "second", threads=1):
        eventually(lambda: len(recorded) == 21)

    assert recorded == [0, 1, 2, 3, 4, 5, "urgent", *range(6, 20)]
