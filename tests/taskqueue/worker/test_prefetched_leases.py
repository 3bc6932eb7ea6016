"""Leases that a process has fetched and not started outlive the process."""

from __future__ import annotations

import os
import signal
import types

import pytest

from django_redis_components.core.client import connections
from django_redis_components.taskqueue import get_queue
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.supervisor import termination
from django_redis_components.taskqueue.supervisor.termination import Terminator
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from django_redis_components.taskqueue.worker.ipc import MAX_ENTRIES, PrefetchedLeases
from tests.support import Proxy, Store, eventually, run_together
from tests.taskqueue.support import base_key, end_lease, recover, running_worker, settle_now, work_off
from tests.taskqueue.tasks import note


def test_leases_are_read_in_order() -> None:
    notes = PrefetchedLeases()
    for number in range(3):
        notes.add(f"task{number}", "w/0/1")
    notes.remove("task1", "w/0/1")
    notes.add("task3", "w/0/2")

    assert notes.read() == [("task0", "w/0/1"), ("task2", "w/0/1"), ("task3", "w/0/2")]


def test_leases_of_one_task_are_separate() -> None:
    notes = PrefetchedLeases()
    notes.add("task", "w/0/1")
    notes.add("task", "w/0/2")

    notes.remove("task", "w/0/1")
    notes.remove("task", "w/0/1")

    assert notes.read() == [("task", "w/0/2")]


def test_lease_without_a_slot_counts_as_started() -> None:
    notes = PrefetchedLeases()
    notes.add("t" * 300, "w/0/1")
    for number in range(MAX_ENTRIES + 5):
        notes.add(f"task{number}", "w/0/1")

    assert len(notes.read()) == MAX_ENTRIES
    notes.remove(f"task{MAX_ENTRIES + 1}", "w/0/1")
    notes.remove("task0", "w/0/1")
    notes.add("task", "w/0/2")
    assert len(notes.read()) == MAX_ENTRIES


def test_threads_add_and_remove_leases_concurrently() -> None:
    notes = PrefetchedLeases()

    def work(number: int) -> None:
        for turn in range(300):
            notes.add(f"task{number}-{turn}", "w/0/1")
            if turn % 3:
                notes.remove(f"task{number}-{turn}", "w/0/1")

    run_together(6, work)

    assert sorted(notes.read()) == sorted(
        (f"task{number}-{turn}", "w/0/1") for number in range(6) for turn in range(0, 300, 3)
    )


def test_leases_survive_the_process() -> None:
    notes = PrefetchedLeases()
    notes.add("before", "w/0/1")
    pid = os.fork()
    if pid == 0:  # pragma: no cover - this process is killed
        notes.add("kept", "w/0/2")
        notes.remove("before", "w/0/1")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)

    assert notes.read() == [("kept", "w/0/2")]


def test_fetched_jobs_but_the_first_are_prefetched(store: Store) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(4)])
    notes = PrefetchedLeases()
    fetcher = Fetcher(home(), connections.client(), "w", ("default",), prefetched=notes)

    jobs = fetcher.fetch("0", 4)
    assert [task_id for task_id, _ in notes.read()] == [result.id for result in results[1:]]
    notes.start_run(jobs[1].id, jobs[1].token, 0)
    assert [task_id for task_id, _ in notes.read()] == [result.id for result in results[2:]]
    settle_now(fetcher, Ack(jobs[2].id, jobs[2].token, "requeued"))
    assert [task_id for task_id, _ in notes.read()] == [results[3].id]


def test_supervisor_returns_prefetched_tasks_of_an_exited_process(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(5)])
    notes = PrefetchedLeases()
    fetcher = Fetcher(home(), connections.client(), "host:1", ("default",), prefetched=notes)
    jobs = fetcher.fetch("0", 4)
    notes.start_run(jobs[2].id, jobs[2].token, 0)
    ended = types.SimpleNamespace(pid=77, worker_id="host:1", prefetched=notes)

    with caplog.at_level("INFO", "django_redis_components.taskqueue"):
        Terminator(("default",), "default").return_prefetched(ended)  # type: ignore[arg-type]

    assert "Returned 2 tasks to their queues that process 77 had not started." in caplog.text
    end_lease(store, jobs[0].id, jobs[2].id)
    recover()
    deaths = [store.raw.hget(base_key(store, "t", result.id), "x") for result in results]
    assert deaths == [b"1", None, b"1", None, None]
    assert [job.id for job in work_off()] == [results[at].id for at in (0, 2, 1, 3, 4)]


def test_prefetched_tasks_are_returned_after_an_outage(
    proxy: Proxy, redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(termination, "RETRY_S", 0.02)
    results = note.enqueue_many([((number,), {}) for number in range(3)])
    notes = PrefetchedLeases()
    Fetcher(home(), connections.client(), "host:1", ("default",), prefetched=notes).fetch("0", 3)
    ended = types.SimpleNamespace(pid=77, worker_id="host:1", prefetched=notes)
    terminator = Terminator(("default",), "proxied")
    proxy.stop_accepting()
    proxy.cut()

    terminator.return_prefetched(ended)  # type: ignore[arg-type]
    assert get_queue("default").info().running == 3
    proxy.accept_again()
    eventually(lambda: terminator.check([]) or terminator.next_at([]) == float("inf"))

    assert [job.id for job in work_off()] == [result.id for result in results[1:]]
    assert get_queue("default").info().running == 1, "the first had begun, and comes back when its lease ends"


def test_running_tasks_are_known_after_the_death_of_the_process() -> None:
    notes = PrefetchedLeases()
    assert notes.running() == 0
    pid = os.fork()
    if pid == 0:
        try:
            for thread in (0, 1, 999, None, None):
                notes.start_run("task", "w/0/1", thread)
            for thread in (1, None):
                notes.end_run(thread)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)

    assert notes.running() == 3, "two threads and a coroutine"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_run_of_a_thread_that_has_died_does_not_count_as_running(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(ack: Ack) -> None:
        raise SystemExit("the guard itself is broken")

    with running_worker(threads=2) as worker:
        leases = worker._prefetched = PrefetchedLeases()
        with monkeypatch.context() as patch:
            patch.setattr(worker.fetcher, "settle", die)
            result = note.enqueue(1)
            eventually(lambda: worker.threads.lost() == 1)
        assert leases.running() == 1

        worker.settle_lost_runs()

        assert leases.running() == 0
        eventually(lambda: (result.refresh(), result.is_finished)[1])

    assert result.state == "failed"
