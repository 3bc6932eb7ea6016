"""When a supervisor terminates a process because of a task, and what happens to the other tasks."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.client.wakeup_listener import WakeupListener
from django_redis_components.taskqueue import get_queue
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.supervisor import termination
from django_redis_components.taskqueue.supervisor.termination import CHECKS_S, CancelListener, Terminator
from django_redis_components.taskqueue.worker.ipc import CommandReader, CommandWriter, ProcessCommand
from tests.support import Proxy, Store, eventually
from tests.taskqueue.supervisor.support import Process
from tests.taskqueue.support import Held, base_key, new_fetcher, queue_key, recover, running_worker
from tests.taskqueue.tasks import hold, note

#: Long ago, and far away, by the monotonic clock.
PAST, FUTURE = 0.0, 1e12


@pytest.fixture
def process() -> Iterator[Process]:
    made = Process()
    os.set_blocking(made.commands, False)
    yield made
    made.close()
    made.child.close()


def heartbeat(
    process: Process, running: list[str] | None = None, limits: dict[str, Any] | None = None, **more: str
) -> None:
    leases = dict.fromkeys(running or [], "t1") | more
    process.write(json.dumps({"leases": leases, "running": running or [], "hard_limits": limits or {}}) + "\n")


def commands(process: Process) -> list[list[str]]:
    try:
        return [json.loads(line) for line in os.read(process.commands, 10_000).splitlines()]
    except BlockingIOError:
        return []


def test_exceeded_hard_limit_terminates_the_process(process: Process) -> None:
    heartbeat(process, ["a", "b"], {"a": ["t1", PAST, 2.0, None], "b": ["t1", FUTURE, 2.0, 50]})

    [(ack, why)] = process.child.overdue(time.monotonic())

    assert (ack.id, ack.token, ack.outcome, why) == ("a", "t1", "failed", "has reached its hard time limit of 2 s")
    assert min(process.child.deadlines()) == PAST
    process.child.terminate(ack, FUTURE)
    assert commands(process) == [["terminate", "a", "t1", "", 0, None]]
    assert process.child.overdue(time.monotonic()) == [], "once is enough"
    assert min(process.child.deadlines()) == FUTURE


def test_run_of_a_batch_that_exceeds_its_hard_limit_is_counted_once(process: Process) -> None:
    limits = {"a": ["t1", PAST, 2.0, None], "b": ["t1", PAST, 2.0, 50], "c": ["t1", PAST - 1, 2.0, None]}
    heartbeat(process, ["a", "b", "c"], limits)

    overdue = process.child.overdue(time.monotonic())

    assert {ack.id: ack.ran_us for ack, _ in overdue} == {"a": 2_000_000, "b": -2_000_000, "c": 2_000_000}


def test_process_of_a_task_that_finished_meanwhile_continues(process: Process) -> None:
    heartbeat(process, ["a"], {"a": ["t1", PAST, 2.0, None]})
    [(ack, _)] = process.child.overdue(1.0)
    process.child.terminate(ack, 5.0)

    heartbeat(process, ["a"], {"a": ["t1", PAST, 2.0, None]})
    assert process.child.kill_at == 5.0
    heartbeat(process, [], a="t1")

    assert (process.child.final_acks, process.child.kill_at) == ({}, float("inf"))


def test_cancelled_task_is_interrupted_and_its_process_terminated_after_the_grace(process: Process) -> None:
    heartbeat(process, ["a"], {"a": ["t1", PAST, 2.0, None]})

    process.child.cancel("a", 1_000.0)
    process.child.cancel("a", 0.0)
    process.child.cancel("a", 1_000.0)

    assert commands(process) == [["cancel", "a", "t1", "", 0, None]] * 3
    [(ack, why)] = process.child.overdue(time.monotonic())
    assert (ack.id, ack.outcome, why) == ("a", "cancelled", "was cancelled and still runs")


def test_process_of_a_task_that_does_not_run_is_not_terminated(process: Process) -> None:
    heartbeat(process, [], a="t1")
    process.child.cancel("a", 0.0)
    assert process.child.overdue(FUTURE) == []

    heartbeat(process, ["a"])
    assert [ack.id for ack, _ in process.child.overdue(FUTURE)] == ["a"]
    heartbeat(process, [])
    heartbeat(process, ["a"])
    assert process.child.overdue(FUTURE) == [], "another lease of it was not asked to end"


def test_full_command_pipe_does_not_block_the_supervisor(process: Process) -> None:
    heartbeat(process, ["a" * 500])
    for _ in range(500):
        process.child.cancel("a" * 500, 1.0)
    os.read(process.commands, 1 << 20)

    process.child.request_heartbeat()
    os.close(process.commands)
    process.child.request_heartbeat()
    process.commands = os.open(os.devnull, os.O_RDONLY)


def test_process_that_does_not_exit_in_time_is_killed(
    process: Process, redis_server: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(termination, "EXIT_S", 0.03)
    terminator = Terminator(("default",), "default")
    heartbeat(process, ["a"], {"a": ["t1", PAST, 2.0, None]})
    assert terminator.next_at([process.child]) == PAST

    terminator.check([process.child])
    assert process.process.poll() is None
    assert terminator.next_at([process.child]) <= time.monotonic() + 0.03
    eventually(lambda: terminator.check([process.child]) or process.process.poll() is not None)

    assert f"Terminating process {process.child.pid}: task a has reached its hard time limit of 2 s." in caplog.text
    assert f"Process {process.child.pid} does not exit; killing it." in caplog.text
    assert process.child.kill_at == float("inf")


def condemned(process: Process, ack: Ack) -> Any:
    process.child.worker_id = "sup.ch"
    process.child.terminate(ack, FUTURE)
    return process.child


@pytest.mark.contract
def test_tasks_of_a_dead_process_are_requeued_in_order(store: Store, process: Process) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(1_200)])
    mine, other = new_fetcher(worker="sup.ch"), new_fetcher(worker="sup.ch2")
    jobs = [*mine.fetch("0", 300), *mine.fetch("1", 300)]
    other.fetch("0", 300)
    terminator = Terminator(("default", "empty"), "default")

    terminator.settle_terminated(condemned(process, Ack(jobs[0].id, jobs[0].token, "failed", b"{}", ttl_ms=60_000)))

    depth = get_queue("default").info()
    assert (depth.running, depth.ready, depth.failed) == (300, 899, 1)
    front = [task_id.decode() for task_id in store.raw.lrange(queue_key(store, "requeued"), 0, -1)]
    assert front == [job.id for job in jobs[1:]] == [result.id for result in results[1:600]]
    assert terminator.next_at([]) == float("inf")
    assert store.raw.hget(base_key(store, "t", jobs[5].id), "x") is None


def test_tasks_of_a_crashed_process_are_recovered_before_their_leases_end(
    redis_server: Store, process: Process
) -> None:
    result = note.enqueue(1)
    process.child.worker_id = "sup.ch"
    new_fetcher(worker="sup.ch").fetch("0", 1)

    Terminator(("default",), "default").expire_leases(process.child)

    assert recover() == [(result.id, "default", "requeued")]


def test_unsent_outcomes_are_sent_after_an_outage(
    redis_server: Store,
    proxy: Proxy,
    process: Process,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(termination, "RETRY_S", 0.02)
    result, other = note.enqueue(1), note.enqueue(2)
    job, _ = new_fetcher(worker="sup.ch").fetch("0", 2)
    terminator = Terminator(("default",), "proxied")
    proxy.stop_accepting()
    proxy.cut()

    terminator.settle_terminated(condemned(process, Ack(job.id, job.token, "cancelled", ttl_ms=60_000)))

    assert "Cannot settle the leases of worker sup.ch yet" in caplog.text
    assert terminator.next_at([]) < time.monotonic() + 1
    proxy.accept_again()
    eventually(lambda: terminator.check([]) or terminator.next_at([]) == float("inf"))
    result.refresh()
    other.refresh()
    assert (result.state, other.state, other.attempts) == ("cancelled", "ready", 0)
    assert recover() == []


def test_processes_that_exit_during_an_outage_wait_for_the_same_retry(
    redis_server: Store, proxy: Proxy, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(termination, "RETRY_S", 600.0)
    process.child.worker_id = "sup.ch"
    terminator = Terminator(("default",), "proxied")
    proxy.stop_accepting()
    proxy.cut()
    terminator.expire_leases(process.child)
    retry_at = terminator.next_at([])

    terminator.expire_leases(process.child)

    assert terminator.next_at([]) == retry_at


def test_partial_commands_are_not_read() -> None:
    read_fd, write_fd = os.pipe()
    reader = CommandReader(read_fd)

    writer = CommandWriter(write_fd)
    writer.send("cancel", "a", "t1")
    writer.send("heartbeat")
    os.write(write_fd, b'["terminate", "b"')
    assert reader.read()
    assert reader.take() == [ProcessCommand("cancel", "a", "t1"), ProcessCommand("heartbeat")]
    os.write(write_fd, b', "t2"]\n')
    assert reader.read()
    assert reader.take() == [ProcessCommand("terminate", "b", "t2")]
    os.close(write_fd)

    assert not reader.read()
    os.close(read_fd)


def test_excluded_jobs_are_not_returned(redis_server: Store) -> None:
    held = [Held(redis_server, name) for name in "ab"]
    with running_worker(threads=2) as worker:
        results = [hold.enqueue("a"), hold.enqueue("b")]
        for each in held:
            each.started()
        worker.stop()

        worker.return_jobs(keep={results[0].id})

        assert list(worker.fetcher.leases) == [results[0].id]
        assert get_queue("default").info().running == 1
        for each in held:
            each.release()
        assert results[0].get(60) == "a"


def test_leases_are_checked_twice_after_a_wakeup(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    class FakePoller:
        wakeups = [True, False, False, False]
        waited: list[float] = []

        def wait(self, seconds: float) -> bool:
            self.waited.append(seconds)
            return self.wakeups.pop(0)

        def close(self) -> None:
            self.waited.append(-1)

    now = [100.0]
    monkeypatch.setattr("django_redis_components.taskqueue.supervisor.termination.time.monotonic", lambda: now[0])
    listener = CancelListener(FakePoller(), 0)
    assert not listener.should_check()

    assert listener.wait(7.0)
    assert not listener.should_check()
    listener.wait(7.0)
    now[0] += CHECKS_S[0]
    assert listener.should_check()
    assert not listener.should_check()
    listener.wait(7.0)
    now[0] += CHECKS_S[1]
    assert listener.should_check()
    assert not listener.should_check()
    listener.wait(7.0)
    listener.close()

    assert FakePoller.waited == pytest.approx([7.0, CHECKS_S[0], CHECKS_S[1] - CHECKS_S[0], 7.0, -1])


def test_without_a_poller_an_outage_ends_no_wait_early_for_long(redis_server: Store, proxy: Proxy) -> None:
    wake_read, wake_write = os.pipe()
    proxy.stop_accepting()
    proxy.cut()
    listener = CancelListener(WakeupListener(connections.client("proxied"), ["bell"], wake_fd=wake_read), wake_read)

    assert listener.wait(0.01) is False
    os.write(wake_write, b"x")
    assert listener.wait(60.0) is False

    listener.close()
    os.close(wake_read)
    os.close(wake_write)
