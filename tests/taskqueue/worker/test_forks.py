"""Tasks that fork: the child is no worker, and the parent continues."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from django_redis_components.core.settings import conf
from tests.support import Child, Store, eventually
from tests.support.processes import Children
from tests.taskqueue.forking import tasks
from tests.taskqueue.support import is_running, taskqueue_settings

pytestmark = pytest.mark.integration

#: Seconds that a task has to end.
WAIT_S = 60
#: How the task's function ends in the child, and the exit code.
ENDS = {"return": 0, "raise": 1, "sys.exit": 3, "exit with a text": 1}
#: Where a task forks.
PLACES = [
    tasks.fork_in_a_thread,
    tasks.fork_with_limits_and_context,
    tasks.fork_in_a_coroutine,
    tasks.fork_in_a_subtask,
    tasks.fork_in_a_thread_of_a_coroutine,
    tasks.fork_in_another_thread_of_a_coroutine,
]


@pytest.fixture
def worker(redis_server: Store, children: Children, settings: Any) -> Child:
    """One process with two threads. Nothing that it starts may outlive it."""
    taskqueue_settings(settings, LEASE=30, GRACE=20)
    child = children.manage(
        "runworker", "--threads", "2", env={"DJANGO_SETTINGS_MODULE": "tests.taskqueue.forking.site"}
    )
    child.wait_for("Worker: queues")
    return child


def processes_of_session(session: int) -> set[int]:
    """Pids of the processes that were started, at whatever distance, by the leader of a session."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[3] == str(session) and fields[0] != "Z":
            found.add(int(entry.name))
    return found


def assert_stops_and_leaves_nothing(worker: Child) -> None:
    worker.terminate()
    assert worker.wait() == 0, worker.output
    eventually(lambda: processes_of_session(worker.pid) == set())
    for trouble in ("was discarded: its lease had expired", "has lost its lease", "ended with an error"):
        assert trouble not in worker.output


def test_forked_child_exits_when_the_task_returns_in_it(worker: Child) -> None:
    pid = tasks.own_pid.enqueue().get(WAIT_S)

    for place in PLACES:
        results = {how: place.enqueue(how) for how in ENDS}

        assert {how: result.get(WAIT_S) for how, result in results.items()} == ENDS, place.name
        assert [result.attempts for result in results.values()] == [1] * len(ENDS), place.name
        assert {result.get(WAIT_S) for result in tasks.own_pid.enqueue_many([((), {})] * 20)} == {pid}, place.name
    assert_stops_and_leaves_nothing(worker)
    assert worker.output.count("LookupError: in the child") == len(PLACES)
    assert worker.output.count("the child has something to say") == len(PLACES)


def test_forked_child_cannot_await_on_the_parent_loop(worker: Child, redis_server: Store) -> None:
    assert tasks.fork_and_await.enqueue().get(WAIT_S) == 1
    assert tasks.fork_and_await_a_future.enqueue().get(WAIT_S) == 1

    assert redis_server.raw.get(f"{conf.settings().prefix}:awaited") is None
    assert_stops_and_leaves_nothing(worker)
    assert "no running event loop" in worker.output


def test_other_coroutines_do_not_run_in_the_child(worker: Child, redis_server: Store) -> None:
    assert tasks.fork_beside_others.enqueue(50).get(WAIT_S) == 0

    assert redis_server.raw.get(f"{conf.settings().prefix}:others") == b"50"


def test_parent_and_child_use_separate_redis_connections(worker: Child, redis_server: Store) -> None:
    assert tasks.use_redis_in_the_child.enqueue(200).get(WAIT_S) == 0

    assert redis_server.raw.get(f"{conf.settings().prefix}:both") == b"401"
    assert_stops_and_leaves_nothing(worker)


def test_the_child_has_default_signal_handlers_and_none_of_our_pipes_and_sockets(worker: Child) -> None:
    def look_around() -> None:
        """Repeated, because another thread may be connecting, whose socket cannot be closed yet."""
        found = tasks.look_around_in_the_child.enqueue().get(WAIT_S)
        assert found == [0, "default, wakeup fd -1; []"]

    eventually(look_around)


def test_programs_have_default_signal_handlers(worker: Child) -> None:
    for preexec in (True, False):
        assert tasks.signals_of_a_program.enqueue(preexec).get(WAIT_S) == "default, wakeup fd -1", preexec


def test_sigterm_terminates_a_child_right_after_the_fork(worker: Child) -> None:
    assert tasks.terminate_at_once.enqueue(200).get(WAIT_S) == [-15]

    assert_stops_and_leaves_nothing(worker)


def test_multiprocessing_works_in_tasks(worker: Child, redis_server: Store) -> None:
    pid = tasks.own_pid.enqueue().get(WAIT_S)

    for method in ("fork", "spawn", "forkserver"):
        ended = tasks.use_multiprocessing.enqueue(method).get(WAIT_S)

        assert ended == [0, 3, -15, [0, 1, 4, 9], [0, 1, 4, 9]], method
        assert commands_while_idle(redis_server) < 500, method
        assert tasks.own_pid.enqueue().get(WAIT_S) == pid, method
    assert_stops_and_leaves_nothing(worker)


def commands_while_idle(store: Store) -> int:
    """Commands that the server executes in half a second. A worker that spins sends thousands."""
    before = store.raw.info("stats")["total_commands_processed"]
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        time.sleep(0.02)
    return int(store.raw.info("stats")["total_commands_processed"] - before)


def test_daemonic_process_exits_with_the_worker(worker: Child) -> None:
    pid = tasks.leave_a_daemonic_process.enqueue().get(WAIT_S)
    assert is_running(pid)

    assert_stops_and_leaves_nothing(worker)


def test_process_started_by_a_task_does_not_keep_the_worker_alive(worker: Child) -> None:
    """It continues as any program would, and is no worker."""
    [pid] = tasks.leave_a_process.enqueue().get(WAIT_S)

    worker.terminate()

    assert worker.wait() == 0
    assert is_running(pid)
    os.kill(pid, 15)
    eventually(lambda: processes_of_session(worker.pid) == set())
