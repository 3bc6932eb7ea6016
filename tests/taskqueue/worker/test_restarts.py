"""Worker processes are restarted after `--max-tasks`, or above `--max-memory`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_redis_components.taskqueue.worker import restart_policy
from django_redis_components.taskqueue.worker.restart_policy import MIB, RestartPolicy, check_memory, memory_bytes
from tests.support import Store, eventually
from tests.support.processes import Children
from tests.taskqueue.support import (
    SITE,
    Held,
    is_running,
    processes_of,
    queue_worker,
    running_worker,
    taskqueue_settings,
)
from tests.taskqueue.tasks import add, frozen_objects, hold, pid


@pytest.mark.parametrize("is_restarted", [True, False])
def test_process_is_restarted_after_an_interrupted_task_unless_the_tasks_are_safe(
    redis_server: Store, children: Children, settings: Any, is_restarted: bool
) -> None:
    taskqueue_settings(settings, **({} if is_restarted else {"RESTART_INTERRUPTED": False}))
    worker = queue_worker(children, "--threads", "2")
    neighbor, held = hold.enqueue("neighbor"), Held(redis_server, "neighbor")
    first = held.started()

    interrupted = hold.using(timeout=(0.05, None)).enqueue("interrupted")
    eventually(lambda: (interrupted.refresh(), interrupted.is_finished)[1])

    if is_restarted:
        worker.wait_for(f"Restarting worker process {first}: a task was interrupted (tests.taskqueue.tasks.hold).")
        assert pid.enqueue().get(60) != first
    else:
        assert pid.enqueue().get(60) == first
    held.release()
    assert neighbor.get(60) == "neighbor"
    assert held.starts() == 1, "the neighbor's run was not interrupted"


@pytest.mark.usefixtures("redis_server")
def test_garbage_collections_of_a_process_skip_what_the_supervisor_has_imported(
    children: Children, settings: Any
) -> None:
    taskqueue_settings(settings)
    queue_worker(children)

    assert frozen_objects.enqueue().get(60) > 10_000


def test_process_without_limits_is_not_restarted() -> None:
    made = RestartPolicy()

    assert made.max_tasks == float("inf")
    assert made.check(10**9) == ""


def test_max_tasks_varies_below_the_limit_between_processes() -> None:
    limits = {RestartPolicy(max_tasks=1_000).max_tasks for _ in range(200)}

    assert min(limits) >= 900
    assert max(limits) <= 1_000
    assert len(limits) > 10
    assert {RestartPolicy(max_tasks=1).max_tasks for _ in range(20)} == {1}


def test_reason_does_not_change() -> None:
    made = RestartPolicy(max_tasks=1)
    assert made.check(0) == ""

    assert made.check(1_234) == "it has run 1,234 tasks (--max-tasks 1)"
    assert made.check(2_000) == "it has run 1,234 tasks (--max-tasks 1)"


def test_memory_is_checked_after_the_first_task() -> None:
    made = RestartPolicy(max_memory_mib=1)

    assert made.check(0) == ""
    assert made.check(1) == f"it uses {memory_bytes() / MIB:,.0f} MiB (--max-memory 1)"


def test_process_below_the_memory_limit_is_not_restarted() -> None:
    assert RestartPolicy(max_memory_mib=1 << 20).check(5) == ""


def test_memory_bytes_measures_this_process(tmp_path: Path) -> None:
    before = memory_bytes()
    ballast = bytearray(os.urandom(64 * MIB))

    assert memory_bytes() - before > 50 * MIB
    assert memory_bytes(tmp_path / "not-linux") >= memory_bytes() - 4 * MIB, "the most that it ever was"
    del ballast


def test_peak_memory_on_macos_is_in_bytes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    in_kib = memory_bytes(tmp_path / "not-linux")

    monkeypatch.setattr(restart_policy.sys, "platform", "darwin")

    assert in_kib == memory_bytes(tmp_path / "not-linux") * 1_024


def test_memory_limit_below_the_usage_at_start_is_refused(redis_server: Store) -> None:
    check_memory(0)
    check_memory(1 << 20)

    with pytest.raises(
        CommandError, match=r"^--max-memory 1 is too low: the site uses \d+ MiB before its first task\. Use \d+ plus"
    ):
        call_command("runworker", "--max-memory", "1")


def test_worker_stops_after_max_tasks_and_returns_fetched_tasks(redis_server: Store) -> None:
    finished_counts = []
    with running_worker() as worker:
        worker.set_max_tasks(3, lambda: finished_counts.append(worker.finished))
        results = add.enqueue_many([((number, 1), {}) for number in range(200)])
        eventually(lambda: not worker.is_alive())

        assert finished_counts == [3]
        assert [result.get(60) for result in results[:3]] == [1, 2, 3]
    for result in results:
        result.refresh()
    assert {(result.state, result.attempts) for result in results[3:]} == {("ready", 0)}


def test_processes_are_replaced_after_max_tasks_without_loss(redis_server: Store, children: Children) -> None:
    results = pid.enqueue_many([((), {}) for _ in range(60)])

    worker = children.manage("runworker", "--threads", "1", "--max-tasks", "20", "--burst", env=SITE)

    assert worker.wait(60) == 0
    pids = [result.get(0) for result in results]
    assert [result.attempts for result in results] == [1] * 60
    assert max(map(pids.count, pids)) <= 20
    assert f"Restarting worker process {pids[0]}: it has run {pids.count(pids[0])} tasks (--max-tasks 20)." in (
        worker.output
    )
    assert "exited (" not in worker.output


def test_replacement_starts_while_the_old_process_finishes(redis_server: Store, children: Children) -> None:
    held = Held(redis_server, "a")
    worker = queue_worker(children, "--threads", "2", "--max-tasks", "1")
    long = hold.enqueue("a")
    old = held.started()

    first = pid.enqueue().get(60)
    worker.wait_for(f"Restarting worker process {old}: it has run 1 tasks (--max-tasks 1).")
    second = pid.enqueue().get(60)

    assert first == old != second
    assert is_running(old)
    held.release()
    assert long.get(60) == "a"
    eventually(lambda: not is_running(old))
    assert long.attempts == 1


def test_at_most_twice_the_processes_run(redis_server: Store, children: Children) -> None:
    held = Held(redis_server, "a")
    worker = queue_worker(children, "--threads", "2", "--max-tasks", "1")
    results = [hold.enqueue("a")]
    first = held.started()
    pid.enqueue().get(60)
    results.append(hold.enqueue("a"))
    second = held.started(2)
    assert pid.enqueue().get(60) == second

    results.append(hold.enqueue("a"))
    eventually(lambda: set(processes_of(worker.pid)) == {first, second})
    assert held.starts() == 2
    held.release()

    assert [result.get(60) for result in results] == ["a"] * 3
    worker.wait_for(f"Restarting worker process {second}: it has run ")  # 1 task, or 2: the task that told its pid too


def test_process_above_max_memory_is_restarted(redis_server: Store, children: Children) -> None:
    most = int(memory_bytes() / MIB) + 50
    worker = queue_worker(children, "--max-memory", str(most), anew=True)
    old = pid.enqueue().get(60)

    pid.enqueue(ballast_mib=most).get(60)

    assert worker.wait_for(f"Restarting worker process {old}: ").endswith(f" MiB (--max-memory {most}).")
    eventually(lambda: not is_running(old))
    assert pid.enqueue().get(60) != old
