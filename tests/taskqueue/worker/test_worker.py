"""A worker's threads: leader and followers, buffer, acks, wakeups, stopping."""

from __future__ import annotations

import contextlib
import re
import threading
from typing import Any

import pytest
from redis.exceptions import RedisError

from django_redis_components.taskqueue import Task, failpoints, get_queue, outage_log
from django_redis_components.taskqueue.worker import prefetch
from django_redis_components.taskqueue.worker import worker as worker_module
from django_redis_components.taskqueue.worker.event_loop import EventLoop
from django_redis_components.taskqueue.worker.execution import execute
from tests.support import Proxy, Store, eventually, run_together
from tests.support.clients import blocked_ids
from tests.taskqueue.support import (
    Held,
    base_key,
    end_lease,
    new_fetcher,
    queue_key,
    recover,
    running_worker,
    work_off,
)
from tests.taskqueue.tasks import (
    add,
    blocked_notes,
    hold,
    hold_async,
    note,
    note_async,
    note_when_released,
    recorded,
)

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def _no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable polling: a task without a wakeup, a timer or a handoff does not run within the test."""
    monkeypatch.setattr(prefetch, "MAX_WAIT_S", 300.0)


def make_quick(worker: worker_module.Worker) -> None:
    """Let the worker believe that all tasks are quick, so that it fetches ahead; a slow one does not change that."""
    worker.job_source.amount.mean_s = 0.0
    worker.job_source.amount.record_run = lambda *_: None  # type: ignore[method-assign]


def idle(worker: worker_module.Worker) -> bool:
    """Return whether one thread waits for a wakeup, and the others for that thread."""
    return worker.job_source.leader_lock.locked() and worker.job_source.idle_threads == worker.threads.alive() - 1


def test_tasks_run_in_order_and_leave_their_results(store: Store) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(200)])

    with running_worker() as worker:
        assert [result.get(60) for result in results] == list(range(200))

    assert recorded == list(range(200))
    assert (worker.finished, worker.busy()) == (200, 0)
    assert store.raw.zcard(queue_key(store, "running")) == 0


def test_idle_worker_runs_enqueued_tasks(store: Store) -> None:
    with running_worker(threads=3) as worker:
        for number in range(5):
            eventually(lambda: idle(worker))
            assert note.enqueue(number).get(60) == number


def test_an_idle_worker_starts_a_delayed_task_without_a_poller(store: Store) -> None:
    with running_worker(threads=2) as worker:
        eventually(lambda: idle(worker))
        late = note.using(run_after=60).enqueue("late")
        eventually(lambda: (worker.fetcher.seconds_to_due() or 0) > 50)
        early = [note.using(run_after=0.02 * number).enqueue(number) for number in range(1, 5)]

        assert [result.get(60) for result in early] == [1, 2, 3, 4]

        assert all(result.started_at >= result.run_after for result in early)  # type: ignore[operator]
        assert late.state == "scheduled"


def test_the_first_queue_is_served_first(store: Store) -> None:
    for queue in ("low", "high"):
        note.using(queue_name=queue).enqueue_many([((f"{queue} {number}",), {}) for number in range(3)])

    with running_worker("high", "low"):
        eventually(lambda: len(recorded) == 6)

    assert recorded == ["high 0", "high 1", "high 2", "low 0", "low 1", "low 2"]


def test_busy_leader_is_replaced_by_another_thread(redis_server: Store) -> None:
    held = [Held(redis_server, str(number)) for number in range(3)]
    with running_worker(threads=3) as worker:
        results = []
        for number in range(3):
            results.append(hold.enqueue(str(number)))
            held[number].started()
            assert worker.busy() == number + 1
        note.enqueue("waits")
        assert recorded == []
        for each in held:
            each.release()

        assert [result.get(60) for result in results] == ["0", "1", "2"]
        eventually(lambda: recorded == ["waits"])


def test_free_threads_share_a_batch(redis_server: Store) -> None:
    with running_worker(threads=4) as worker:
        eventually(lambda: idle(worker))
        held = [Held(redis_server, str(number)) for number in range(4)]

        hold.enqueue_many([((str(number),), {}) for number in range(4)])

        for each in held:
            each.started()
        assert worker.busy() == 4
        for each in held:
            each.release()


def test_tasks_buffered_behind_a_slow_one_return_to_the_front(redis_server: Store) -> None:
    first, slow = Held(redis_server, "gate"), Held(redis_server, "slow")
    with running_worker(worker="slow:1") as worker:
        hold.enqueue("gate")
        first.started()
        hold.enqueue("slow")
        blocked = note.enqueue_many([((number,), {}) for number in range(5)])
        make_quick(worker)
        first.release()
        slow.started()

        eventually(lambda: get_queue("default").info().ready == 5)

        note.enqueue("new")
        [slow_id] = [each.decode() for each in redis_server.raw.zrange(queue_key(redis_server, "running"), 0, -1)]
        eventually(lambda: list(worker.fetcher.leases) == [slow_id])  # it learns of it by the reply
        work_off(worker="quick:1")
        assert recorded == [0, 1, 2, 3, 4, "new"]
        for result in blocked:
            result.refresh()
            assert (result.worker_ids, result.state) == (["quick:1"], "successful")
        slow.release()
        assert hold.get_result(slow_id).get(60) == "slow"


def test_worker_fetches_one_job_after_a_slow_task(redis_server: Store) -> None:
    with running_worker() as worker:
        make_quick(worker)
        assert worker.job_source.want() > 10
        worker.job_source.amount.suspended_until = float("inf")
        assert worker.job_source.want() == 1


def test_concurrent_fetch_requests_are_limited(proxy: Proxy, redis_server: Store) -> None:
    """Four threads that are free at the same time; each request is for all of them."""
    held = Held(redis_server, "all")
    with running_worker(threads=4, using="proxied") as worker:
        make_quick(worker)
        for _ in range(4):
            hold.enqueue("all")
        held.started(times=4)
        results = note.enqueue_many([((number,), {}) for number in range(300)])
        proxy.hold()

        held.release()

        eventually(
            lambda: worker.fetcher.pending_requests() == prefetch.MAX_REQUESTS and worker.job_source.idle_threads == 2
        )
        proxy.let_go()
        assert [result.get(60) for result in results] == list(range(300))


def test_waiting_threads_are_woken_when_a_fetch_returns_nothing(proxy: Proxy, redis_server: Store) -> None:
    held = Held(redis_server, "all")
    with running_worker(threads=4, using="proxied") as worker:
        make_quick(worker)
        for _ in range(4):
            hold.enqueue("all")
        held.started(times=4)
        proxy.hold()

        held.release()

        eventually(
            lambda: worker.fetcher.pending_requests() == prefetch.MAX_REQUESTS and worker.job_source.idle_threads == 2
        )
        proxy.let_go()
        eventually(lambda: idle(worker))
        assert note.enqueue("afterwards").get(60) == "afterwards"


def test_the_outcome_of_a_task_does_not_wait_for_a_slow_neighbor(redis_server: Store) -> None:
    first, slow = Held(redis_server, "gate"), Held(redis_server, "slow")
    with running_worker() as worker:
        hold.enqueue("gate")
        first.started()
        quick = note.enqueue("quick")
        hold.enqueue("slow")
        make_quick(worker)
        first.release()
        slow.started()

        assert quick.get(60) == "quick"

        assert slow.ends() == 0
        slow.release()


def test_outcome_is_sent_while_its_thread_waits_for_the_requests_of_others(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their replies may wake other threads, so that the thread of the outcome waits on."""
    paused, go_on = threading.Semaphore(2), threading.Event()

    def pause(name: str) -> None:
        if name == "after_fetch" and paused.acquire(blocking=False):
            assert go_on.wait(60)

    def one_has_finished() -> bool:
        for result in results:
            result.refresh()
        return any(result.is_finished for result in results)

    monkeypatch.setattr(failpoints, "hook", pause)
    with blocked_notes() as released:
        results = note_when_released.enqueue_many([((number,), {}) for number in range(3)])
        with running_worker(threads=3) as worker:
            eventually(lambda: worker.busy() == 1 and worker.fetcher.pending_requests() == 2)
            make_quick(worker)
            released.set()

            eventually(one_has_finished)

            assert worker.fetcher.pending_requests() == 2
            go_on.set()


def test_a_stopped_worker_finishes_what_runs_and_returns_the_rest(redis_server: Store) -> None:
    first, slow = Held(redis_server, "gate"), Held(redis_server, "slow")
    with running_worker(worker="stops:1") as worker:
        hold.enqueue("gate")
        first.started()
        running = hold.enqueue("slow")
        rest = note.enqueue_many([((number,), {}) for number in range(5)])
        make_quick(worker)
        first.release()
        slow.started()

        worker.stop()
        assert worker.is_alive()
        eventually(lambda: redis_server.raw.llen(queue_key(redis_server, "requeued")) == 5)
        slow.release()
        assert running.get(60) == "slow"
        eventually(lambda: not worker.is_alive())

    work_off(worker="next:1")
    assert recorded == [0, 1, 2, 3, 4]
    for result in rest:
        result.refresh()
        assert result.worker_ids == ["next:1"]


def test_an_idle_worker_stops_at_once(redis_server: Store) -> None:
    with running_worker(threads=4) as worker:
        eventually(lambda: idle(worker))

    assert not worker.is_alive()
    note.enqueue("not fetched")
    assert recorded == []


@pytest.mark.parametrize("task", [hold, hold_async], ids=["in a thread", "on the loop"])
def test_running_tasks_can_be_returned(redis_server: Store, task: Task[[str], Any]) -> None:
    """A process exits after this. Here the run continues, and its late outcome is discarded."""
    held = Held(redis_server, "long")
    with running_worker(worker="ends:1") as worker:
        result = task.enqueue("long")
        held.started()
        worker.stop()

        worker.return_jobs()

        result.refresh()
        assert (result.state, result.worker_ids) == ("ready", [])
        held.release()
        eventually(lambda: not worker.is_alive())

    result.refresh()
    assert result.state == "ready"
    work_off(worker="next:1")
    assert result.get(0) == "long"
    assert result.worker_ids == ["next:1"]


def test_worker_is_alive_while_its_last_thread_passes_a_coroutine_to_the_loop(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "MAX_WAIT_S", 0.1)
    received, go_on = threading.Event(), threading.Event()
    held = Held(redis_server, "long")

    def pause_and_stop(name: str) -> None:
        if name == "after_fetch":
            received.set()
            assert go_on.wait(60)
        elif name == "before_run":
            worker.stop()

    def end_the_thread() -> int:
        go_on.set()
        eventually(lambda: threads_alive() == 0)
        return 0

    with running_worker() as worker:
        monkeypatch.setattr(failpoints, "hook", pause_and_stop)
        hold_async.enqueue("long")
        assert received.wait(60)
        threads_alive = worker.threads.alive
        monkeypatch.setattr(worker.threads, "alive", end_the_thread)

        assert worker.is_alive()

        held.release()
        eventually(lambda: not worker.is_alive())


@pytest.mark.parametrize("threads", [1, 4])
def test_burst_worker_exits_when_the_queues_are_empty(store: Store, threads: int) -> None:
    note.enqueue_many([((number,), {}) for number in range(50)])
    note.using(run_after=60).enqueue("later")

    with running_worker(threads=threads, burst=True) as worker:
        eventually(lambda: not worker.is_alive())

    assert sorted(recorded) == list(range(50))
    assert store.raw.zcard(queue_key(store, "running")) == 0
    assert get_queue("default").info().scheduled == 1


def test_burst_worker_waits_for_tasks_enqueued_by_running_ones(redis_server: Store) -> None:
    held = Held(redis_server, "long")
    hold.enqueue("long")

    with running_worker(threads=2, burst=True) as worker:
        held.started()
        note.enqueue("sent meanwhile")
        eventually(lambda: recorded == ["sent meanwhile"])
        assert worker.is_alive()
        held.release()
        eventually(lambda: not worker.is_alive())


def test_burst_worker_keeps_a_thread_while_another_receives_a_task(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    received, go_on = threading.Event(), threading.Event()

    def pause(name: str) -> None:
        if name == "after_fetch" and not received.is_set():
            received.set()
            assert go_on.wait(60)

    monkeypatch.setattr(failpoints, "hook", pause)
    held = Held(redis_server, "long")
    hold.enqueue("long")

    with running_worker(threads=2, burst=True) as worker:
        assert received.wait(60)
        replied_at = worker.fetcher.replied_at
        eventually(lambda: worker.fetcher.replied_at != replied_at)
        note.enqueue("the other thread")
        eventually(lambda: recorded == ["the other thread"])
        go_on.set()
        held.release()
        eventually(lambda: not worker.is_alive())


def test_burst_worker_runs_a_task_whose_return_to_the_queue_was_under_way(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flusher returns it; it is not in the queue yet when the thread finds the queue empty."""
    returning, go_on = threading.Event(), threading.Event()

    def pause(name: str) -> None:
        if name == "before_ack" and not returning.is_set():
            returning.set()
            assert go_on.wait(60)

    def has_no_permit(*_: object) -> bool:
        monkeypatch.undo()
        monkeypatch.setattr(failpoints, "hook", pause)
        monkeypatch.setattr(EventLoop, "wait_for_permit", lambda *_: returning.wait(60))
        return False

    monkeypatch.setattr(EventLoop, "acquire_permit", has_no_permit)
    note_async.enqueue("returned")

    with running_worker(threads=1, burst=True) as worker:
        assert returning.wait(60)
        replied_at = worker.fetcher.replied_at
        eventually(lambda: worker.fetcher.replied_at != replied_at)
        go_on.set()
        eventually(lambda: not worker.is_alive())

    assert recorded == ["returned"]


def test_many_threads_and_many_senders_run_each_task_once(store: Store) -> None:
    with running_worker(threads=8):
        sent = run_together(4, lambda number: [add.enqueue(number, turn) for turn in range(100)])
        for number, results in enumerate(sent):
            for turn, result in enumerate(results):
                assert result.get(60) == number + turn
                assert result.attempts == 1


def test_worker_continues_after_its_connections_were_cut(
    proxy: Proxy, redis_server: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module.random, "uniform", lambda low, high: 0.05)
    monkeypatch.setattr(outage_log, "REMINDER_S", 600.0)
    caplog.set_level("INFO")
    held = Held(redis_server, "long")
    with running_worker(threads=2, using="proxied") as worker:
        eventually(lambda: idle(worker))
        hold.enqueue("long")
        held.started()
        proxy.stop_accepting()
        proxy.cut()
        eventually(lambda: "Redis is unavailable" in caplog.text)
        held.release()
        eventually(lambda: worker.fetcher.pending_acks() == 1)

        proxy.accept_again()

        assert note.enqueue("after").get(60) == "after"
        eventually(lambda: redis_server.raw.zcard(queue_key(redis_server, "running")) == 0)
    assert caplog.text.count("Redis is unavailable") == 1
    assert caplog.text.count("Redis is available again after ") == 1


def test_worker_stopped_in_an_outage_exits_and_keeps_its_acks(
    proxy: Proxy, redis_server: Store, caplog: pytest.LogCaptureFixture
) -> None:
    held = Held(redis_server, "long")
    result = hold.enqueue("long")
    with running_worker(using="proxied") as worker:
        held.started()
        proxy.stop_accepting()
        proxy.cut()
        worker.stop()
        held.release()
        eventually(lambda: not worker.is_alive())

    assert re.search(r"1 outcome cannot be sent: Redis is unavailable \(.*(refused|by server)\.\)\.", caplog.text)
    assert worker.fetcher.has_unconfirmed_acks()
    proxy.accept_again()
    assert result.get(60) == "long", "the flusher retries while the process lives"


def test_flusher_sends_acks_whose_thread_could_not(proxy: Proxy, redis_server: Store) -> None:
    result = note.enqueue("a")
    fetcher = new_fetcher(using="proxied")
    prefetch.PrefetchBuffer(fetcher, prefetch.PrefetchAmount()).start()
    fetcher.settle(execute(fetcher.fetch("0", 1)[0]))
    proxy.stop_accepting()
    proxy.cut()
    with pytest.raises(RedisError):
        fetcher.fetch("0", 0)

    proxy.accept_again()

    assert result.get(60) == "a"


def test_threads_are_named_and_daemonic(redis_server: Store) -> None:
    with running_worker(threads=2):
        mine = {thread.name: thread.daemon for thread in threading.enumerate() if thread.name.startswith("task-")}

    assert mine == {"task-0": True, "task-1": True}


def test_leader_consumes_the_wakeup(store: Store) -> None:
    with running_worker() as worker:
        eventually(lambda: idle(worker))
        note.enqueue(1).get(60)
        eventually(lambda: idle(worker))

        eventually(lambda: store.raw.exists(base_key(store, "wakeup", "q:default")) == 0)


def test_wakeup_reaches_another_worker_after_one_was_stopped(redis_server: Store) -> None:
    """The process of the stopped one continues, as it does while its last tasks run."""
    earlier = blocked_ids(redis_server)
    with contextlib.ExitStack() as stopped:
        stopped.enter_context(running_worker(threads=2, worker="stops:1"))
        eventually(lambda: len(blocked_ids(redis_server) - earlier) == 1)
        with running_worker(worker="next:1"):
            eventually(lambda: len(blocked_ids(redis_server) - earlier) == 2)

            stopped.close()

            eventually(lambda: len(blocked_ids(redis_server) - earlier) == 1)
            assert note.enqueue("next").get(60) == "next"


def test_wakeup_reaches_another_worker_while_one_runs_a_task_that_was_due(redis_server: Store, settings: Any) -> None:
    settings.REDIS_COMPONENTS["CONNECTIONS"]["default"]["SOCKET_TIMEOUT"] = 60  # its wait would outlast the test
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS}
    held = Held(redis_server, "long")
    earlier = blocked_ids(redis_server)
    with running_worker(worker="busy:1"):
        eventually(lambda: blocked_ids(redis_server) - earlier)
        hold.using(run_after=1).enqueue("long")
        held.started()
        with running_worker(worker="next:1") as other:
            eventually(lambda: idle(other) and blocked_ids(redis_server) - earlier)

            assert note.enqueue("next").get(60) == "next"

            held.release()


def test_buffered_jobs_run_once(redis_server: Store) -> None:
    """Two threads, one batch: nothing runs twice, nothing is left."""
    results: list[Any] = note.enqueue_many([((number,), {}) for number in range(2_000)])

    with running_worker(threads=2) as worker:
        make_quick(worker)
        assert results[-1].get(60) == 1_999
        eventually(lambda: len(recorded) == 2_000)

    assert sorted(recorded) == list(range(2_000))


def test_return_jobs_waits_for_acks_that_another_thread_sends(
    proxy: Proxy, redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "MAX_RETURN_S", 60.0)
    held = Held(redis_server, "long")
    with running_worker(using="proxied") as worker:
        result = hold.enqueue("long")
        held.started()
        proxy.hold()
        held.release()
        eventually(lambda: worker.finished == 1 and not worker.fetcher.pending_acks())
        worker.stop()
        assert worker.fetcher.leases, "its outcome is on its way"
        threading.Timer(0.05, proxy.let_go).start()

        worker.return_jobs()

        assert not worker.fetcher.leases
        assert result.get(0) == "long"


def test_return_jobs_gives_up_while_redis_is_unavailable(
    proxy: Proxy, redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "MAX_RETURN_S", 0.3)
    held = Held(redis_server, "long")
    with running_worker(using="proxied") as worker:
        result = hold.enqueue("long")
        held.started()
        worker.stop()
        proxy.stop_accepting()
        proxy.cut()

        worker.return_jobs()

        assert list(worker.fetcher.leases) == [result.id]
        assert worker.fetcher.pending_acks() == 1, "once, however often it is tried"
        proxy.accept_again()
        held.release()
        eventually(
            lambda: not worker.is_alive() and not worker.fetcher.pending_acks()
        )  # or its flusher tries until the run ends


def test_stopped_worker_wants_no_jobs(redis_server: Store) -> None:
    with running_worker() as worker:
        pass

    assert not worker.job_source.leader_lock.locked()
    assert worker.job_source.follow() is None
    assert worker.job_source.want() == 0, "a worker that stops wants nothing"


def test_task_fetched_after_the_stop_is_returned(
    proxy: Proxy, redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has leased it, the reply is on its way, and the process ends."""
    monkeypatch.setattr(worker_module, "MAX_RETURN_S", 60.0)
    held = Held(redis_server, "long")
    with running_worker(using="proxied") as worker:
        hold.enqueue("long")
        held.started()
        result = note.enqueue("too late")
        proxy.hold()
        held.release()
        eventually(lambda: note.get_result(result.id).state == "running")
        worker.stop()
        assert worker.fetcher.pending_requests()
        assert result.id not in worker.fetcher.leases
        threading.Timer(0.05, proxy.let_go).start()

        worker.return_jobs()

        result.refresh()
        assert (result.state, result.attempts, recorded) == ("ready", 0, [])


def test_worker_that_lost_a_lease_may_run_the_task_again_concurrently(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    held = Held(store, "twice")
    with running_worker(threads=2) as worker:
        result = hold.enqueue("twice")
        held.started()
        end_lease(store, result.id)
        recover()
        held.started(times=2)
        assert worker.busy() == 2

        held.release()

        assert result.get(60) == "twice"
        eventually(lambda: not worker.fetcher.leases and worker.busy() == 0)
        assert note.enqueue("after it").get(60) == "after it"
        assert worker.threads.alive() == 2
    assert "was discarded: its lease had expired." in caplog.text
