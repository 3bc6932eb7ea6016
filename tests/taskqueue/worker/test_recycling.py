"""Worker processes that are replaced after so many tasks, or with so much memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from django_redis_components.taskqueue.worker import process as recycling
from django_redis_components.taskqueue.worker.process import MIB, RecyclePolicy, check_memory, memory_bytes
from tests.support import Store, eventually
from tests.support.processes import Children
from tests.taskqueue.support import SITE, Held, is_running, processes_of, queue_worker, running_worker
from tests.taskqueue.tasks import add, hold, pid


def test_without_limits_a_process_stays() -> None:
    made = RecyclePolicy()

    assert made.max_tasks == float("inf")
    assert made.check(10**9) == ""


def test_the_limit_of_tasks_is_kept_and_differs_between_processes() -> None:
    limits = {RecyclePolicy(max_tasks=1_000).max_tasks for _ in range(200)}

    assert min(limits) >= 900
    assert max(limits) <= 1_000
    assert len(limits) > 10
    assert {RecyclePolicy(max_tasks=1).max_tasks for _ in range(20)} == {1}


def test_the_reason_stays_once_it_was_said() -> None:
    made = RecyclePolicy(max_tasks=1)
    assert made.check(0) == ""

    assert made.check(1_234) == "it has run 1,234 tasks (--max-tasks 1)"
    assert made.check(2_000) == "it has run 1,234 tasks (--max-tasks 1)"


def test_memory_counts_after_the_first_task() -> None:
    made = RecyclePolicy(max_memory_mib=1)

    assert made.check(0) == ""
    assert made.check(1) == f"it uses {memory_bytes() / MIB:,.0f} MiB (--max-memory 1)"


def test_enough_memory_keeps_a_process() -> None:
    assert RecyclePolicy(max_memory_mib=1 << 20).check(5) == ""


def test_memory_is_that_of_this_process(tmp_path: Path) -> None:
    before = memory_bytes()
    ballast = bytearray(os.urandom(64 * MIB))

    assert memory_bytes() - before > 50 * MIB
    assert memory_bytes(tmp_path / "not-linux") >= memory_bytes() - 4 * MIB, "the most that it ever was"
    del ballast


def test_elsewhere_the_peak_is_counted_in_bytes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    in_kib = memory_bytes(tmp_path / "not-linux")

    monkeypatch.setattr(recycling.sys, "platform", "darwin")

    assert in_kib == memory_bytes(tmp_path / "not-linux") * 1_024


def test_a_limit_that_cannot_be_kept_is_refused(redis_server: Store) -> None:
    check_memory(0)
    check_memory(1 << 20)

    with pytest.raises(
        CommandError, match=r"^--max-memory 1 is too low: the site uses \d+ MiB before its first task\. Use \d+ plus"
    ):
        call_command("runworker", "--max-memory", "1")


def test_a_worker_stops_after_so_many_tasks_and_hands_back_what_it_had_fetched(redis_server: Store) -> None:
    told = []
    with running_worker() as worker:
        worker.set_max_tasks(3, lambda: told.append(worker.finished))
        results = add.enqueue_many([((number, 1), {}) for number in range(200)])
        eventually(lambda: not worker.is_alive())

        assert told == [3]
        assert [result.get(60) for result in results[:3]] == [1, 2, 3]
    for result in results:
        result.refresh()
    assert {(result.state, result.attempts) for result in results[3:]} == {("ready", 0)}


def test_processes_are_replaced_after_so_many_tasks_and_none_is_lost(redis_server: Store, children: Children) -> None:
    results = pid.enqueue_many([((), {}) for _ in range(60)])

    worker = children.manage("runworker", "--threads", "1", "--max-tasks", "20", "--burst", env=SITE)

    assert worker.wait(60) == 0
    pids = [result.get(0) for result in results]
    assert [result.attempts for result in results] == [1] * 60
    assert max(map(pids.count, pids)) <= 20
    assert f"Replacing worker process {pids[0]}: it has run {pids.count(pids[0])} tasks (--max-tasks 20)." in (
        worker.output
    )
    assert "exited (" not in worker.output


def test_the_next_process_does_not_wait_for_the_last_task_of_the_old_one(
    redis_server: Store, children: Children
) -> None:
    held = Held(redis_server, "a")
    worker = queue_worker(children, "--threads", "2", "--max-tasks", "1")
    long = hold.enqueue("a")
    old = held.started()

    first = pid.enqueue().get(60)
    worker.wait_for(f"Replacing worker process {old}: it has run 1 tasks (--max-tasks 1).")
    second = pid.enqueue().get(60)

    assert first == old != second
    assert is_running(old)
    held.let_go()
    assert long.get(60) == "a"
    eventually(lambda: not is_running(old))
    assert long.attempts == 1


def test_no_more_than_twice_the_processes_live_at_a_time(redis_server: Store, children: Children) -> None:
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
    held.let_go()

    assert [result.get(60) for result in results] == ["a"] * 3
    worker.wait_for(f"Replacing worker process {second}: it has run 1 tasks (--max-tasks 1).")


def test_a_process_that_has_grown_is_replaced(redis_server: Store, children: Children) -> None:
    most = int(memory_bytes() / MIB) + 50
    worker = queue_worker(children, "--max-memory", str(most))
    old = pid.enqueue().get(60)

    pid.enqueue(ballast_mib=most).get(60)

    assert worker.wait_for(f"Replacing worker process {old}: ").endswith(f" MiB (--max-memory {most}).")
    eventually(lambda: not is_running(old))
    assert pid.enqueue().get(60) != old
