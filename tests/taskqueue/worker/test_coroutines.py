"""Coroutines on the event loop of a worker: concurrency, outcomes, stopping."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest

from django_redis_components.taskqueue import chain, get_queue, run_start
from django_redis_components.taskqueue.flows import parents
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.worker import db_connections, prefetch
from django_redis_components.taskqueue.worker import worker as worker_module
from django_redis_components.taskqueue.worker.event_loop import EventLoop
from django_redis_components.taskqueue.worker.execution import Execution
from tests.support import Store, eventually
from tests.taskqueue.support import Held, queue_key, running_worker
from tests.taskqueue.tasks import (
    add,
    add_async,
    do_without_a_thread_async,
    hold,
    hold_async,
    in_a_thread_async,
    leave_a_task_behind,
    leave_synchronous_code_behind,
    note,
    note_async,
    query_async,
    raise_async,
    recorded,
    set_task_factory_async,
    use_context_async,
    whereabouts_async,
)

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def _no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "MAX_WAIT_S", 300.0)


def held_ones(store: Store, count: int) -> list[Held]:
    return [Held(store, str(number)) for number in range(count)]


def test_coroutines_run_concurrently_beside_the_threads(store: Store) -> None:
    held = held_ones(store, 12)
    results = hold_async.enqueue_many([((str(number),), {}) for number in range(12)])

    with running_worker(threads=1) as worker:
        for each in held:
            each.started()
        assert worker.busy() == 12
        assert add.enqueue(2, 3).get(60) == 5
        for each in held:
            each.release()
        assert [result.get(60) for result in results] == [str(number) for number in range(12)]

    assert (worker.finished, worker.busy()) == (13, 0)
    assert store.raw.zcard(queue_key(store, "running")) == 0
    assert len({each.started() for each in held}) == 1, "one process"


def test_coroutines_run_on_one_event_loop_thread(redis_server: Store) -> None:
    with running_worker(threads=2):
        seen = [whereabouts_async.enqueue().get(60) for _ in range(4)]

    assert [place[0] for place in seen] == ["event-loop"] * 4
    assert len({loop for _, loop in seen}) == 1


def test_async_concurrency_limits_concurrent_coroutines(redis_server: Store) -> None:
    held = held_ones(redis_server, 5)
    results = hold_async.enqueue_many([((str(number),), {}) for number in range(5)])

    with running_worker(threads=2, async_concurrency=2) as worker:
        # Which two it is, is a race of the two threads that hand them over.
        eventually(lambda: sum(each.starts() for each in held) == 2 and get_queue("default").info().ready == 3)
        assert worker.busy() == 2
        for each in held:
            each.release()
        assert [result.get(60) for result in results] == list("01234")

    for result in results:
        assert (result.attempts, result.worker_ids) == (1, ["here:1"])


def test_coroutine_without_a_free_slot_runs_on_another_worker(redis_server: Store) -> None:
    held = held_ones(redis_server, 2)
    with running_worker(threads=3, async_concurrency=1, worker="full:1"):
        hold_async.enqueue("0")
        held[0].started()
        second = hold_async.enqueue("1")
        eventually(lambda: get_queue("default").info().ready == 1)

        with running_worker(worker="free:1"):
            held[1].started()
            for each in held:
                each.release()
            assert second.get(60) == "1"

    assert second.worker_ids == ["free:1"]


def test_threads_run_tasks_while_the_loop_is_full(redis_server: Store) -> None:
    long, other = Held(redis_server, "long"), Held(redis_server, "other")
    with running_worker(threads=2, async_concurrency=1):
        hold_async.enqueue("long")
        long.started()
        waits = hold_async.enqueue("other")
        eventually(lambda: get_queue("default").info().ready == 1)
        assert waits.cancel()

        assert add.enqueue(2, 3).get(60) == 5, "within the second in which its threads look for other work"

        assert other.starts() == 0
        long.release()


def test_stopping_worker_waits_for_its_coroutines(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "MAX_WAIT_S", 0.1)
    held = Held(redis_server, "0")
    with running_worker(threads=2) as worker:
        result = hold_async.enqueue("0")
        held.started()
        worker.stop()
        eventually(lambda: worker.threads.alive() == 0)
        assert worker.is_alive()
        held.release()
        assert result.get(60) == "0", "its outcome is sent by the flusher: no thread is left"
        eventually(lambda: not worker.is_alive())


def test_threads_that_wait_for_a_slot_stop_at_once(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "MAX_PERMIT_WAIT_S", 300.0)
    held = Held(redis_server, "0")
    with running_worker(threads=2, async_concurrency=1) as worker:
        hold_async.enqueue("0")
        held.started()
        waiting = hold_async.enqueue("1")
        eventually(lambda: get_queue("default").info().ready == 1)

        worker.stop()

        eventually(lambda: worker.threads.alive() == 0)
        held.release()
    waiting.refresh()
    assert (waiting.state, waiting.worker_ids) == ("ready", [])


@pytest.mark.parametrize("slots", [1, 50])
def test_burst_worker_exits_after_the_last_coroutine(store: Store, slots: int) -> None:
    note_async.enqueue_many([((number,), {}) for number in range(60)])
    held = Held(store, "0")
    hold_async.enqueue("0")

    with running_worker(threads=2, burst=True, async_concurrency=slots) as worker:
        held.started()
        assert worker.is_alive()
        held.release()
        eventually(lambda: not worker.is_alive())

    assert sorted(recorded) == list(range(60))
    assert store.raw.zcard(queue_key(store, "running")) == 0


def test_mixed_functions_and_coroutines_run_once_each(store: Store) -> None:
    results: list[Any] = []
    for number in range(150):
        results += [note.enqueue(number), note_async.enqueue(number)]

    with running_worker(threads=4, async_concurrency=3):
        assert [result.get(60) for result in results] == [number for number in range(150) for _ in (1, 2)]

    assert sorted(recorded) == sorted([*range(150), *range(150)])
    assert {result.attempts for result in results} == {1}


def test_coroutines_are_fetched_up_to_the_free_permits(redis_server: Store) -> None:
    with running_worker(threads=1, async_concurrency=40) as worker:
        assert worker.job_source.want() == 1
        for number in range(10):
            add_async.enqueue(number, 0).get(60)

        assert worker.job_source.amount.async_share > 0.5
        eventually(lambda: worker.job_source.want() == 41)
        worker.job_source.amount.suspended_until = float("inf")
        assert worker.job_source.want() == 1


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("LookupError", "builtins.LookupError"),
        ("SystemExit", "builtins.SystemExit"),
        ("CancelledError", "asyncio.exceptions.CancelledError"),
    ],
)
def test_exception_of_a_coroutine_fails_only_its_task(redis_server: Store, kind: str, path: str) -> None:
    held = Held(redis_server, "0")
    with running_worker():
        bystander = hold_async.enqueue("0")
        held.started()
        result = raise_async.enqueue(kind)
        eventually(lambda: result.refresh() or result.is_finished)
        held.release()
        assert bystander.get(60) == "0"

    assert (result.state, result.attempts, result.errors[0].exception_class_path) == ("failed", 1, path)


def test_loop_continues_after_a_coroutine_leaves_a_task(redis_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    with running_worker():
        assert leave_a_task_behind.enqueue().get(60) == "left"
        assert add_async.enqueue(2, 3).get(60) == 5

    assert "The event loop continues after an error." in caplog.text
    with pytest.raises(SystemExit):
        recorded[0].result()


def test_a_message_that_cannot_be_read_fails_and_its_permit_is_free_again(redis_server: Store) -> None:
    result = add_async.enqueue(1, 2)
    redis_server.raw.hset(f"{redis_server.prefix}:taskqueue:{{default}}:t:{result.id}", "b", "no json")

    with running_worker(async_concurrency=1) as worker:
        eventually(lambda: redis_server.raw.zcard(queue_key(redis_server, "failed")) == 1)
        assert add_async.enqueue(2, 3).get(60) == 5
        assert worker.busy() == 0


def test_ack_of_a_coroutine_is_sent_while_the_threads_are_busy(redis_server: Store) -> None:
    held, quick = Held(redis_server, "long"), Held(redis_server, "quick")
    with running_worker(threads=1):
        result = hold_async.enqueue("quick")
        quick.started()
        hold.enqueue("long")
        held.started()
        quick.release()

        assert result.get(60) == "quick"

        assert held.ends() == 0
        held.release()


@pytest.mark.django_db(transaction=True)
def test_each_coroutine_has_a_separate_database_thread(redis_server: Store) -> None:
    with running_worker():
        results = [query_async.enqueue() for _ in range(3)]
        used = [result.get(60) for result in results]

    for first, second, same_connection in used:
        assert first == second
        assert same_connection
    assert "event-loop" not in {name for name, _, _ in used}
    eventually(lambda: not {name for name, _, _ in used} & {thread.name for thread in threading.enumerate()})


def test_error_on_close_does_not_change_the_outcome(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise LookupError("the driver")

    monkeypatch.setattr(db_connections, "close_all", fail)
    with running_worker():
        assert in_a_thread_async.enqueue().get(60) is True

    assert "Cannot close a database connection after a task." in caplog.text


def test_outcome_stays_if_the_thread_of_a_coroutine_cannot_start(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Threadless(db_connections.forks.ForkSafeExecutor):
        def _adjust_thread_count(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(db_connections.forks, "ForkSafeExecutor", Threadless)
    with running_worker():
        assert do_without_a_thread_async.enqueue().get(60) == "can't start new thread"


def test_coroutine_that_uses_no_synchronous_code_needs_no_thread(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    real = db_connections.forks.ForkSafeExecutor

    class Counted(real):  # type: ignore[misc,valid-type]
        def __init__(self, *args: Any, **options: Any) -> None:
            made.append(options)
            super().__init__(*args, **options)

    monkeypatch.setattr(db_connections.forks, "ForkSafeExecutor", Counted)
    with running_worker():
        assert add_async.enqueue(2, 3).get(60) == 5
        assert use_context_async.using(metadata={"by": "kim"}).enqueue().get(60) == {"by": "kim"}
        before = made.count({"max_workers": 1})
        assert in_a_thread_async.enqueue().get(60) is True

    assert (before, made.count({"max_workers": 1})) == (0, 1)


@pytest.mark.parametrize("kind", ["old", "raising"])
def test_coroutines_run_after_one_has_set_a_task_factory(redis_server: Store, kind: str) -> None:
    with running_worker():
        assert set_task_factory_async.enqueue(kind).get(60) == kind

        assert add_async.enqueue(2, 3).get(60) == 5


def test_loop_takes_buffered_coroutines_itself(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[int] = []
    run = EventLoop.run

    def counted(loop: EventLoop, *args: Any) -> None:
        passed.append(1)
        run(loop, *args)

    monkeypatch.setattr(EventLoop, "run", counted)
    note_async.enqueue_many([((number,), {}) for number in range(1_000)])

    with running_worker(threads=2, burst=True) as worker:
        eventually(lambda: not worker.is_alive())

    assert sorted(recorded) == list(range(1_000))
    assert len(passed) < 500


def test_coroutine_that_the_loop_cannot_start_fails(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(job: Job, task: Any) -> Execution:
        if threading.current_thread().name == "event-loop":
            raise MemoryError
        return Execution(job, task)

    monkeypatch.setattr(worker_module, "Execution", start)
    results = note_async.enqueue_many([((number,), {}) for number in range(100)])

    with running_worker(threads=2) as worker:
        eventually(lambda: all((result.refresh(), result.is_finished)[1] for result in results))
        assert worker.busy() == 0

    failed = [result for result in results if result.state == "failed"]
    assert {result.errors[0].exception_class_path for result in failed} == {"builtins.MemoryError"}
    assert len(failed) + len(recorded) == 100


def test_threads_run_the_functions_between_coroutines(redis_server: Store) -> None:
    note_async.enqueue_many([((number,), {}) for number in range(200)])
    hold.enqueue("0")
    note_async.enqueue_many([((number,), {}) for number in range(200, 400)])
    held = Held(redis_server, "0")

    with running_worker(threads=2) as worker:
        held.started()
        eventually(lambda: (len(recorded), worker.busy()) == (400, 1))
        held.release()

    assert sorted(recorded) == list(range(400))


def test_an_idle_thread_fetches_while_the_others_run_functions_behind_coroutines(redis_server: Store) -> None:
    with running_worker(threads=4) as worker:
        for number in range(10):
            add_async.enqueue(number, 0).get(60)
        eventually(lambda: worker.job_source.idle_threads == 3)
        assert worker.job_source.amount.async_share > 0.5

        hold.enqueue_many([((str(number),), {}) for number in range(3)])

        held = held_ones(redis_server, 3)
        for each in held:
            each.started()
        assert add.enqueue(2, 3).get(60) == 5
        for each in held:
            each.release()


def test_loop_is_not_blocked_while_results_of_a_flow_are_read(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def block(*_: object) -> None:
        raise AssertionError("read by a blocking call")

    monkeypatch.setattr(parents, "read_inputs", block)
    with running_worker():
        assert chain(add_async.s(1, 2), add_async.s(3)).enqueue().get(60) == 6


def test_loop_is_not_blocked_while_the_record_of_a_run_is_read(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def block(*_: object) -> None:
        raise AssertionError("read by a blocking call")

    monkeypatch.setattr(run_start, "read_record", block)
    with running_worker():
        assert use_context_async.using(metadata={"by": "kim"}).enqueue().get(60) == {"by": "kim"}


def test_coroutine_that_outlives_its_run_has_a_thread(redis_server: Store) -> None:
    with running_worker():
        assert leave_synchronous_code_behind.enqueue().get(60) == "left"
        eventually(lambda: recorded == ["ran"])


def test_coroutines_that_wait_for_the_loop_wake_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, wakeups = EventLoop(50), [0]
    is_blocked, may_go, done = threading.Event(), threading.Event(), threading.Semaphore(0)
    real = asyncio.BaseEventLoop.call_soon_threadsafe

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        wakeups[0] += 1
        return real(self, *args, **options)

    async def block() -> None:
        is_blocked.set()
        may_go.wait(60)

    async def nothing() -> None:
        pass

    loop.start()
    loop.run(block, lambda task: done.release())
    assert is_blocked.wait(60)
    monkeypatch.setattr(asyncio.BaseEventLoop, "call_soon_threadsafe", counted)
    for _ in range(40):
        loop.run(nothing, lambda task: done.release())
    monkeypatch.undo()
    may_go.set()

    for _ in range(41):
        assert done.acquire(timeout=60)
    assert wakeups == [1]


def test_loop_takes_all_coroutines_before_the_first_step_of_one() -> None:
    """Otherwise those behind a long first step would return to the queue."""
    loop, order, done = EventLoop(3), [], threading.Semaphore(0)

    async def step() -> None:
        order.append("step")

    def take() -> Any:
        order.append("take")
        return (step, lambda task: done.release()) if order.count("take") <= 3 else None

    loop.take = take
    loop.start()
    assert loop.acquire_permit(60)
    loop.run(step, lambda task: done.release())
    for _ in range(4):
        assert done.acquire(timeout=60)

    assert "take take step step" in " ".join(order)


def test_first_step_that_ends_the_loop_s_thread_elsewhere_is_an_outcome() -> None:
    loop, ended, done = EventLoop(1), [], threading.Semaphore(0)

    async def leave() -> None:
        sys.exit("left")

    def end(task: Any) -> None:
        ended.append(task.exception())
        done.release()

    loop.start()
    for _ in range(2):
        assert loop.acquire_permit(60)
        loop.run(leave, end)
        assert done.acquire(timeout=60)

    assert [str(exc) for exc in ended] == ["left", "left"]
    eventually(lambda: loop.free_permits() == 1)
    assert not loop.has_died()


def test_loop_and_threads_acquire_no_more_permits_than_there_are() -> None:
    loop, acquired, done = EventLoop(1), [], threading.Event()

    async def nothing() -> None:
        pass

    def take() -> Any:
        if done.is_set():
            return None
        acquired.append(loop.acquire_permit(0))  # as a thread may at any moment
        return nothing, lambda task: done.set()

    assert loop.acquire_permit(0)
    loop.take = take
    loop.start()
    loop.run(nothing, lambda task: None)

    assert done.wait(60)
    assert acquired == [False]
    assert loop.acquire_permit(60)


def test_a_free_permit_wakes_a_thread_that_waits_for_one() -> None:
    loop, acquired, may_end = EventLoop(1), [], threading.Event()

    async def wait() -> None:
        while not may_end.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    assert loop.acquire_permit(0)
    loop.start()
    loop.run(wait, lambda task: None)
    others = [
        threading.Thread(target=loop.wait_until_idle, args=(300,), daemon=True),
        threading.Thread(target=lambda: acquired.append(loop.acquire_permit(300)), daemon=True),
    ]
    others[0].start()
    eventually(lambda: waiting_threads(loop) == 1)
    others[1].start()
    eventually(lambda: waiting_threads(loop) == 2)

    may_end.set()

    eventually(lambda: acquired == [True])
    loop.close()


def waiting_threads(loop: EventLoop) -> int:
    conditions = [each for each in vars(loop).values() if isinstance(each, threading.Condition)]
    return sum(len(each._waiters) for each in conditions)  # type: ignore[attr-defined]
