"""`runworker` as processes that are replaced, stopped, orphaned and suspended without losing a task."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import Task, TaskFailed, get_queue
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats import queue_stats
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo
from django_redis_components.taskqueue.store.scripts import EXPIRE_LEASES
from django_redis_components.taskqueue.supervisor.supervisor import COPY_S
from tests.support import Proxy, Store, eventually
from tests.support.processes import MEASURED, Children
from tests.taskqueue.support import (
    SITE,
    Held,
    base_key,
    end_lease,
    is_running,
    new_fetcher,
    processes_of,
    queue_key,
    queue_worker,
    recover,
    taskqueue_settings,
)
from tests.taskqueue.tasks import add, add_async, exit_the_process, hold, hold_async, kill_the_process

pytestmark = pytest.mark.integration

#: Seconds of a lease where one must end or be renewed. A process that is stopped for almost as long is killed.
LEASE_S = 3.0


@pytest.fixture(autouse=True)
def _long_lease(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, LEASE=60, GRACE=20)


@pytest.fixture
def short_lease(_long_lease: None, settings: Any) -> None:
    taskqueue_settings(settings, LEASE=LEASE_S, GRACE=20)


def workers() -> list[WorkerInfo]:
    return run(connections.client(), queue_stats.read_overview(home())).workers


def test_worker_runs_tasks_and_stops_on_sigterm(redis_server: Store, children: Children) -> None:
    worker = queue_worker(children, "high", "default", "--threads", "2", anew=True)
    assert "Worker: queues high, default (strict order), 1 process with 2 threads" in worker.output
    assert " and 100 coroutines." in worker.output
    worker.wait_for('No registered task uses queue "high" by default. Queues of tasks: ')
    assert add.enqueue(2, 3).get(60) == 5
    assert add_async.using(queue_name="high").enqueue(2, 3).get(60) == 5

    worker.terminate()

    assert worker.wait() == 0
    assert (
        "Stopping: running tasks have 20 s to finish; a second signal returns them to their queues now."
        in worker.output
    )
    assert worker.output.splitlines()[-1].endswith("Worker stopped.")
    assert add.enqueue(1, 1).state == "ready"


def test_worker_reports_coroutines_beside_busy_threads(redis_server: Store, children: Children) -> None:
    queue_worker(children, "--threads", "2")
    held = [Held(redis_server, name) for name in ("thread", "coroutine")]
    hold.enqueue("thread")
    hold_async.enqueue("coroutine")
    for each in held:
        each.started()

    [info] = eventually(lambda: [each for each in workers() if each.busy == 2])

    assert (info.busy_threads, info.busy_coroutines, info.lost_threads) == (1, 1, 0)
    for each in held:
        each.release()
    eventually(lambda: [(each.busy, each.busy_threads, each.busy_coroutines) for each in workers()] == [(0, 0, 0)])


def test_worker_is_listed_until_it_exits(redis_server: Store, children: Children, short_lease: None) -> None:
    held = Held(redis_server, "a")
    worker = queue_worker(children, "default", "mail", "--threads", "3", "--processes", "2")
    result = hold.enqueue("a")
    pid = held.started()
    assert set(processes_of(worker.pid)) >= {pid}

    [info] = eventually(lambda: [each for each in workers() if each.busy])
    assert (info.pid, info.threads, info.queues, info.busy) == (pid, 3, ("default", "mail"), 1)
    eventually(lambda: len(workers()) == 2)
    assert [get_queue(queue).info().live_workers for queue in ("default", "mail", "other")] == [2, 2, 0]
    assert info.started_at is not None
    assert 0 <= info.heartbeat_age < 60
    held.release()
    assert result.get(60) == "a"
    eventually(lambda: [each.finished for each in workers() if each.id == info.id] == [1])
    eventually(lambda: run(connections.client(), queue_stats.read_overview(home())).poller)

    worker.terminate()
    assert worker.wait() == 0

    overview = run(connections.client(), queue_stats.read_overview(home()))
    assert (overview.workers, overview.poller) == ([], None)
    assert redis_server.raw.exists(base_key(redis_server, "worker", info.id)) == 0
    assert redis_server.raw.exists(*(queue_key(redis_server, "workers", queue) for queue in info.queues)) == 0


def test_worker_without_poller_runs_due_tasks(redis_server: Store, children: Children) -> None:
    worker = queue_worker(children, "--no-poller")
    assert ", no embedded poller." in worker.output

    assert add.using(run_after=0.05).enqueue(2, 3).get(60) == 5

    assert redis_server.raw.exists(base_key(redis_server, "poller")) == 0
    worker.terminate()
    assert worker.wait() == 0


def test_a_killed_process_is_replaced_and_its_task_runs_again(redis_server: Store, children: Children) -> None:
    held = Held(redis_server, "a")
    worker = queue_worker(children)
    result = hold.enqueue("a")
    first = held.started()

    os.kill(first, signal.SIGKILL)

    worker.wait_for(f"Worker process {first} exited (signal SIGKILL); starting another in 0 s.")
    second = held.started(2)
    assert second != first
    os.kill(second, signal.SIGKILL)
    worker.wait_for(f"Worker process {second} exited (signal SIGKILL); starting another in 0 s.")
    held.started(3)
    held.release()
    assert result.get(60) == "a"
    assert (result.runs, len(set(result.worker_ids)), result.errors) == (3, 3, [])
    eventually(lambda: f"Task {result.id} (queue default) has lost its worker" in worker.output)


def test_tasks_that_kill_their_process_do_not_delay_restarts(redis_server: Store, children: Children) -> None:
    worker = queue_worker(children, "--threads", "2")
    crashing = kill_the_process.enqueue_many([(("a", 0), {}) for _ in range(5)])
    others = add.enqueue_many([((number, 1), {}) for number in range(20)])

    assert [result.get(60) for result in others] == list(range(1, 21))
    for result in crashing:
        with pytest.raises(TaskFailed):
            result.get(60)

    def pauses() -> list[str]:
        return re.findall(r"starting another in (\S+) s\.", worker.output)

    eventually(lambda: len(pauses()) >= 5)
    assert set(pauses()) == {"0"}


def test_restart_of_processes_that_die_idle_backs_off(redis_server: Store, children: Children) -> None:
    worker = queue_worker(children)
    assert add.enqueue(2, 3).get(60) == 5

    for pause in ("0.2", "0.4"):
        [pid] = eventually(lambda: processes_of(worker.pid))
        os.kill(pid, signal.SIGKILL)
        worker.wait_for(f"Worker process {pid} exited (signal SIGKILL); starting another in {pause} s.")


def test_stopping_worker_finishes_running_tasks_and_fetches_none(redis_server: Store, children: Children) -> None:
    held = Held(redis_server, "a")
    worker = queue_worker(children, "--threads", "2")
    running = hold.enqueue("a")
    threads = Path(f"/proc/{held.started()}/task")
    # The main thread, flusher, log writer, watch, and two that run tasks.
    eventually(lambda: len(list(threads.iterdir())) == 6)

    worker.terminate()
    eventually(lambda: len(list(threads.iterdir())) == 5)  # the one that waited for work has ended
    waiting = add.enqueue(2, 3)
    held.release()

    assert worker.wait() == 0
    running.refresh()
    waiting.refresh()
    assert (running.state, running.attempts, waiting.state) == ("successful", 1, "ready")


def test_task_that_outlasts_the_grace_returns_to_its_queue(
    redis_server: Store, children: Children, settings: Any
) -> None:
    taskqueue_settings(settings, LEASE=30, GRACE=0.2)
    held = Held(redis_server, "a")
    worker = queue_worker(children)
    result = hold.enqueue("a")
    held.started()
    assert add.enqueue(2, 3).get(60) == 5  # by the other threads

    worker.terminate()

    assert worker.wait() == 0
    assert "Returned 1 running task to their queues." in worker.output
    result.refresh()
    assert (result.state, result.attempts, result.worker_ids, result.errors) == ("ready", 0, [], [])
    assert redis_server.raw.lrange(queue_key(redis_server, "requeued"), 0, -1) == [result.id.encode()]
    assert held.ends() == 0


@pytest.mark.parametrize(("together", "second"), [(True, "SIGINT"), (False, "SIGINT"), (False, "SIGTERM")])
def test_second_signal_stops_the_worker_at_once(
    redis_server: Store, children: Children, settings: Any, together: bool, second: str
) -> None:
    taskqueue_settings(settings, LEASE=30, GRACE=300)
    held = Held(redis_server, "a")
    worker = queue_worker(children)
    result = hold.enqueue("a")
    held.started()

    worker.signal(signal.SIGTERM)
    if not together:
        worker.wait_for("Stopping: running tasks have 300 s to finish")
    if second == "SIGTERM":  # one that follows at once is a copy of the first
        copies_end_at = time.monotonic() + COPY_S
        eventually(lambda: time.monotonic() > copies_end_at)
    worker.signal(signal.Signals[second])

    assert worker.wait() == 0
    result.refresh()
    assert (result.state, result.attempts) == ("ready", 0)


@pytest.mark.parametrize("copies", [1, 2])
def test_sigterm_to_the_process_group_leaves_the_grace_period(
    redis_server: Store, children: Children, settings: Any, copies: int
) -> None:
    """Of `timeout` the worker receives two signals, and its processes those and the one that it forwards."""
    taskqueue_settings(settings, LEASE=30, GRACE=300)
    held = Held(redis_server, "a")
    worker = queue_worker(children, "--threads", "2")
    result = hold.enqueue("a")
    threads = Path(f"/proc/{held.started()}/task")

    for _ in range(copies):
        os.killpg(worker.pid, signal.SIGTERM)
    eventually(lambda: len(list(threads.iterdir())) == 5)  # the thread that waited for work has ended
    worker.wait_for("Stopping: running tasks have 300 s to finish")
    held.release()

    assert worker.wait() == 0
    result.refresh()
    assert (result.state, result.attempts, held.starts(), held.ends()) == ("successful", 1, 1, 1)


def test_later_copies_of_sigterm_to_a_process_leave_its_grace_period(
    redis_server: Store, children: Children, settings: Any
) -> None:
    taskqueue_settings(settings, LEASE=30, GRACE=300)
    held = Held(redis_server, "a")
    worker = queue_worker(children, "--threads", "2")
    result = hold.enqueue("a")
    pid = held.started()
    threads = Path(f"/proc/{pid}/task")
    worker.terminate()
    eventually(lambda: len(list(threads.iterdir())) == 5)

    for _ in range(3):
        os.kill(pid, signal.SIGTERM)
        time.sleep(0.05)
    held.release()

    assert worker.wait() == 0
    result.refresh()
    assert (result.state, held.starts()) == ("successful", 1)


@pytest.mark.parametrize(
    ("name", "what"), [("SIGQUIT", "stopped it"), ("SIGTERM", "stopped it"), ("SIGUSR1", "made it quiet")]
)
def test_process_that_another_program_signals_finishes_its_task_and_is_replaced(
    redis_server: Store, children: Children, name: str, what: str
) -> None:
    """Its own task, for example: it would otherwise return to its queue and end one process after the other."""
    held = Held(redis_server, "a")
    worker = queue_worker(children)
    result = hold.enqueue("a")
    pid = held.started()

    os.kill(pid, signal.Signals[name])

    worker.wait_for(f"Restarting worker process {pid}: another program has {what} by a signal.")
    assert add.enqueue(2, 3).get(60) == 5  # by its successor
    held.release()
    assert result.get(60) == "a"
    assert (held.starts(), held.ends()) == (1, 1)
    eventually(lambda: not is_running(pid))


def test_process_returns_its_tasks_when_its_supervisor_dies_in_the_grace_period(
    redis_server: Store, children: Children, settings: Any
) -> None:
    taskqueue_settings(settings, LEASE=LEASE_S, GRACE=300)
    held = Held(redis_server, "a")
    worker = queue_worker(children)
    result = hold.enqueue("a")
    pid = held.started()
    worker.terminate()
    worker.wait_for("Stopping: running tasks have 300 s to finish")

    worker.kill()

    eventually(lambda: not is_running(pid))
    result.refresh()
    assert (result.state, result.attempts) == ("ready", 0)


def test_a_process_that_does_not_stop_is_killed(redis_server: Store, children: Children, settings: Any) -> None:
    taskqueue_settings(settings, LEASE=30, GRACE=0.1)
    held = Held(redis_server, "a")
    worker = children.call("tests.taskqueue.processes:impatient_worker", env=SITE | MEASURED)
    hold.enqueue("a")
    pid = held.started()
    os.kill(pid, signal.SIGSTOP)

    worker.terminate()

    worker.wait_for("done 1")
    eventually(lambda: not is_running(pid))


def test_restart_of_processes_that_cannot_start_backs_off(redis_server: Store, children: Children) -> None:
    worker = children.call("tests.taskqueue.processes:broken_worker", env=SITE | MEASURED)

    worker.wait_for("A worker process exits with an error.")
    worker.wait_for("LookupError: no worker today")
    for pause in ("0.2", "0.4", "0.8"):
        worker.wait_for(f"exited (exit code 1); starting another in {pause} s.")

    worker.terminate()
    worker.wait_for("done 0")


def test_supervisor_without_memory_for_a_process_tries_again(redis_server: Store, children: Children) -> None:
    worker = children.call("tests.taskqueue.processes:worker_without_memory", env=SITE | MEASURED)
    [pid] = eventually(lambda: [each.pid for each in workers()])

    os.kill(pid, signal.SIGKILL)

    for pause in ("0.4", "0.8", "1.6"):
        worker.wait_for(f"A worker process cannot start; trying again in {pause} s.")
        worker.wait_for("OSError: [Errno 12] Cannot allocate memory")
    assert add.enqueue(2, 3).get(60) == 5
    worker.terminate()
    worker.wait_for("done 0")


def test_worker_stopped_before_it_starts_starts_no_process(redis_server: Store, children: Children) -> None:
    worker = children.call("tests.taskqueue.processes:worker_stopped_before_its_time", env=SITE | MEASURED)

    assert worker.result() == 0
    assert redis_server.keys() == []


@pytest.mark.parametrize("busy", [True, False])
def test_processes_exit_after_their_supervisor_was_killed(
    redis_server: Store, children: Children, settings: Any, busy: bool
) -> None:
    taskqueue_settings(settings, LEASE=60, GRACE=20)
    held = Held(redis_server, "a")
    worker = queue_worker(children, "--processes", "2")
    pids = eventually(lambda: len(found := processes_of(worker.pid)) == 2 and found)
    if busy:
        result = hold.enqueue("a")
        pids = [held.started()]

    worker.kill()

    worker.wait_for("The supervisor has exited; stopping.")
    if busy:
        held.release()
        assert result.get(60) == "a"
    eventually(lambda: not any(map(is_running, pids)))


def test_process_without_supervisor_returns_its_tasks_before_their_leases_expire(
    redis_server: Store, children: Children, settings: Any
) -> None:
    taskqueue_settings(settings, LEASE=4, GRACE=60)
    held = Held(redis_server, "a")
    worker = queue_worker(children)
    result = hold.enqueue("a")
    pid = held.started()

    worker.kill()

    eventually(lambda: not is_running(pid))
    result.refresh()
    assert (result.state, result.attempts) == ("ready", 0)
    assert redis_server.raw.zcard(queue_key(redis_server, "running")) == 0


def test_unregistered_task_of_an_old_worker_is_requeued_in_a_rolling_deploy(
    redis_server: Store, children: Children
) -> None:
    worker = children.call("tests.taskqueue.processes:attentive_worker", env=SITE | MEASURED)
    worker.wait_for("Worker: queues default")
    result = add.enqueue(2, 3)
    assert result.get(60) == 5
    unregistered = add.using(run_after=60).enqueue(3, 4)
    redis_server.raw.zrem(queue_key(redis_server, "scheduled"), unregistered.id)
    redis_server.raw.hset(base_key(redis_server, "t", unregistered.id), "s", "unregistered")
    redis_server.raw.zadd(queue_key(redis_server, "unregistered"), {unregistered.id: 1})

    assert unregistered.get(60) == 7


def test_leases_are_renewed_while_a_task_runs(redis_server: Store, children: Children, short_lease: None) -> None:
    held = Held(redis_server, "a")
    queue_worker(children)
    result = hold.enqueue("a")
    held.started()
    running = queue_key(redis_server, "running")
    first = redis_server.raw.zscore(running, result.id)

    eventually(lambda: redis_server.raw.zscore(running, result.id) > first + 1_500 * LEASE_S)

    assert held.starts() == 1
    held.release()
    assert result.get(60) == "a"
    assert result.attempts == 1


def test_process_without_heartbeat_is_killed_and_replaced(
    redis_server: Store, children: Children, short_lease: None
) -> None:
    held = Held(redis_server, "a")
    worker = queue_worker(children)
    result = hold.enqueue("a")
    pid = held.started()

    os.kill(pid, signal.SIGSTOP)

    worker.wait_for(f"Worker process {pid} sends no heartbeat; killing it.")
    assert held.started(2) != pid
    held.release()
    assert result.get(60) == "a"


def test_processes_that_were_stopped_with_their_supervisor_continue(
    redis_server: Store, children: Children, tmp_path: Path
) -> None:
    """Ctrl-Z, and `docker pause`. Nothing else could run the task meanwhile: its lease is renewed again."""
    held, resumed = Held(redis_server, "a"), tmp_path / "resumed"
    worker = children.call("tests.taskqueue.processes:worker_that_is_stopped_as_a_whole", str(resumed), env=SITE)
    result = hold.enqueue("a")
    pid = held.started()

    resumed.with_name("stop").touch()
    eventually(resumed.exists)
    assert add.enqueue(2, 3).get(60) == 5
    held.release()

    assert result.get(60) == "a"
    assert (held.starts(), held.ends(), is_running(pid)) == (1, 1, True)
    worker.terminate()
    worker.wait_for("done 0")


def test_lost_lease_is_logged(redis_server: Store, children: Children, short_lease: None) -> None:
    held = Held(redis_server, "a")
    worker = queue_worker(children, "--no-poller", "--threads", "1")
    result = hold.enqueue("a")
    pid = held.started()
    eventually(lambda: any(each.busy for each in workers()))

    end_lease(redis_server, result.id)
    assert recover() == [(result.id, "default", "requeued")]

    worker.wait_for(f"Process {pid} has lost its lease of task {result.id}.")
    held.release()
    worker.wait_for(f"The outcome (succeeded) of task {result.id} was discarded: its lease had expired.")
    assert result.get(60) == "a"
    assert result.runs == 2


def test_tasks_not_started_by_a_killed_process_are_requeued_without_counting(
    redis_server: Store, children: Children
) -> None:
    """A worker prefetches quick tasks; those behind the killer have not started."""
    add.enqueue_many([((number, 1), {}) for number in range(300)])
    killer = kill_the_process.using(max_deliveries=1).enqueue("a", 0)
    behind = add.using(max_deliveries=1).enqueue_many([((number, 2), {}) for number in range(20)])
    queue_worker(children, "--threads", "1", "--no-poller")

    assert [result.get(60) for result in behind] == [number + 2 for number in range(20)]

    assert {result.attempts for result in behind} == {1}
    killer.refresh()
    assert killer.state == "running", "it had started, and a poller recovers it"


def test_task_that_kills_its_process_fails_and_its_neighbors_do_not(redis_server: Store, children: Children) -> None:
    held = Held(redis_server, "a")
    neighbors = hold.using(max_deliveries=2).enqueue_many([(("a",), {})] * 3)
    killer = kill_the_process.using(max_deliveries=2).enqueue("a", 3)
    queue_worker(children, "--threads", "4")
    held.started(4)
    held.release()

    with pytest.raises(TaskFailed, match="WorkerLost"):
        killer.get(60)

    assert [result.get(60) for result in neighbors] == ["a"] * 3
    assert killer.runs == 2


@pytest.mark.parametrize("crash", [kill_the_process, exit_the_process])
def test_neighbors_of_a_crash_run_again_long_before_their_leases_end(
    redis_server: Store, children: Children, settings: Any, crash: Task[..., None]
) -> None:
    taskqueue_settings(settings, LEASE=600, GRACE=20)
    held = Held(redis_server, "a")
    neighbors = hold.enqueue_many([(("a",), {})] * 3)
    killer = crash.using(max_deliveries=1).enqueue("a", 3)
    queue_worker(children, "--threads", "4")

    held.started(6)
    with pytest.raises(TaskFailed, match="WorkerLost"):
        killer.get(60)
    held.release()

    assert [result.get(60) for result in neighbors] == ["a"] * 3
    assert [result.runs for result in neighbors] == [2, 2, 2]


def test_leases_of_a_crash_end_after_an_outage_and_a_lost_reply(
    redis_server: Store, proxy: Proxy, children: Children, settings: Any
) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": {"default": {"URL": proxy.url}}}
    taskqueue_settings(settings, LEASE=600, GRACE=20)
    held = Held(redis_server, "a")
    worker = queue_worker(children, "--threads", "2")
    result = hold.enqueue("a")
    pid = held.started()

    proxy.stop_accepting()
    proxy.cut()
    os.kill(pid, signal.SIGKILL)
    worker.wait_for("Cannot settle the leases of worker ")
    proxy.drop_next_reply(after=EXPIRE_LEASES.sha.encode())
    proxy.accept_again()

    held.started(2)
    held.release()
    assert result.get(60) == "a"
    assert result.runs == 2


@pytest.mark.contract
def test_expiring_the_leases_of_a_worker_spares_other_workers(store: Store) -> None:
    first, second, other = (add.enqueue(number, 1) for number in range(3))
    new_fetcher(worker="dead").fetch("0", 2)
    new_fetcher(worker="dead2").fetch("0", 1)
    recover()
    call = EXPIRE_LEASES(base=home().base, worker="dead", queue="default", offset=0, limit=500)

    assert connections.client().execute(call) == 3

    assert {task_id for task_id, *_ in recover()} == {first.id, second.id}
    assert connections.client().execute(call) == 1
    assert recover() == []
    for result in (first, second, other):
        result.refresh()
    assert (first.state, second.state, other.state) == ("ready", "ready", "running")


def test_burst_worker_exits_when_the_queues_are_empty(redis_server: Store, children: Children) -> None:
    results = add.enqueue_many([((number, 1), {}) for number in range(200)])

    worker = children.manage("runworker", "--burst", "--processes", "2", env=SITE)

    assert worker.wait(60) == 0
    assert [result.get(0) for result in results] == list(range(1, 201))
    assert get_queue("default").info().running == 0


def test_worker_continues_after_an_outage(redis_server: Store, proxy: Proxy, children: Children, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": {"default": {"URL": proxy.url}}}
    taskqueue_settings(settings, LEASE=LEASE_S, GRACE=20)
    worker = queue_worker(children)
    pid = eventually(lambda: processes_of(worker.pid))[0]
    eventually(lambda: redis_server.raw.exists(base_key(redis_server, "workers")))

    proxy.stop_accepting()
    proxy.cut()
    worker.wait_for(f"Cannot renew the leases of process {pid} (")
    proxy.accept_again()

    assert add.enqueue(2, 3).get(60) == 5
    worker.terminate()
    assert worker.wait() == 0


def test_a_second_worker_takes_over_from_a_killed_one(
    redis_server: Store, children: Children, short_lease: None
) -> None:
    held = Held(redis_server, "a")
    first = queue_worker(children, "--no-poller")
    result = hold.enqueue("a")
    pid = held.started()
    queue_worker(children)

    first.close()
    eventually(lambda: not is_running(pid))

    assert held.started(2) != pid
    held.release()
    assert result.get(60) == "a"
    assert result.runs == 2
