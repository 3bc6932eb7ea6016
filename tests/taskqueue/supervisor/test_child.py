"""A worker process as its supervisor sees it: heartbeats, freshness, exit."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from django_redis_components.taskqueue.shards import shards_of
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.worker.ipc import CommandReader, Heartbeat
from django_redis_components.taskqueue.worker.options import WorkerOptions
from django_redis_components.taskqueue.worker.process import HeartbeatWriter, _StopRequests
from django_redis_components.taskqueue.worker.worker import Worker
from tests.support import Store, eventually
from tests.taskqueue.supervisor.support import Process
from tests.taskqueue.tasks import note

pytestmark = pytest.mark.integration


@pytest.fixture
def process() -> Iterator[Process]:
    made = Process()
    yield made
    made.close()
    made.child.close()


def line(**leases: str) -> str:
    return json.dumps({"leases": leases, "busy": 1, "finished": 2}) + "\n"


def test_the_last_complete_heartbeat_is_used(process: Process) -> None:
    process.write(line(a="t1") + line(b="t2") + '{"leases": {"c"')

    assert process.child.heartbeat == Heartbeat({"b": "t2"}, 1, 2)


def test_a_heartbeat_may_arrive_in_parts(process: Process) -> None:
    text = line(a="t1")

    process.write(text[:10])
    assert process.child.heartbeat == Heartbeat({})
    process.write(text[10:])

    assert process.child.heartbeat.leases == {"a": "t1"}


def test_a_truncated_heartbeat_is_ignored(process: Process) -> None:
    process.write(line(a="t1"))

    process.write('{"leases": {"b": \n')
    assert process.child.heartbeat.leases == {"a": "t1"}
    process.write(line(c="t3"))

    assert process.child.heartbeat.leases == {"c": "t3"}


def test_a_heartbeat_larger_than_the_pipe_is_received(process: Process, redis_server: Store) -> None:
    os.set_blocking(process.heartbeat, False)
    worker = Worker(shards_of(), "host:1", WorkerOptions(("default",)), process.commands)
    note.enqueue_many([((number,), {}) for number in range(2_000)])
    jobs = worker.fetcher.fetch("0", 2_000)
    writer = HeartbeatWriter(process.heartbeat, worker)

    def received() -> bool:
        writer.write()
        process.child.read_heartbeats()
        return process.child.heartbeat.leases == worker.fetcher.leases

    eventually(received)
    assert len(json.dumps(worker.fetcher.leases)) > 65_536, "the size of a pipe"

    for job in jobs[1:]:
        worker.fetcher.settle(Ack(job.id, job.token, "requeued"))
    while worker.fetcher.pending_acks():
        worker.fetcher.fetch("acks", 0)
    eventually(received)
    assert process.child.heartbeat.leases == {jobs[0].id: jobs[0].token}


class Waits(_StopRequests):
    """Those of a process, without its handlers of signals."""

    def __init__(self, command_fd: int) -> None:
        self.commands = CommandReader(command_fd)
        self.orphaned_at = float("inf")
        self.wake_fd, self.end = os.pipe()


def test_the_rest_of_a_large_heartbeat_is_written_while_the_process_waits(
    process: Process, redis_server: Store
) -> None:
    """A process that runs batches has more leases than fit into the pipe in the time until they expire."""
    os.set_blocking(process.heartbeat, False)
    worker = Worker(shards_of(), "host:1", WorkerOptions(("default",)), process.commands)
    note.enqueue_many([((number,), {}) for number in range(3_000)])
    worker.fetcher.fetch("0", 3_000)
    writer, stops = HeartbeatWriter(process.heartbeat, worker), Waits(process.commands)
    writer.write()
    process.child.read_heartbeats()
    assert process.child.is_sending(), "the supervisor reads again soon"

    waiting = threading.Thread(target=writer.wait, args=(stops, 600.0), daemon=True)
    waiting.start()

    def received() -> bool:
        process.child.read_heartbeats()
        return process.child.heartbeat.leases == worker.fetcher.leases

    eventually(received)
    assert not process.child.is_sending()
    os.write(stops.end, b"x")
    waiting.join()
    os.close(stops.end)
    os.close(stops.wake_fd)


def test_a_process_whose_supervisor_has_exited_drops_the_rest_of_a_heartbeat(redis_server: Store) -> None:
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    worker = Worker(shards_of(), "host:1", WorkerOptions(("default",)), read_fd)
    note.enqueue_many([((number,), {}) for number in range(3_000)])
    worker.fetcher.fetch("0", 3_000)
    writer = HeartbeatWriter(write_fd, worker)
    writer.write()
    assert writer._rest

    os.close(read_fd)
    writer.write()

    assert not writer._rest, "or each wait would end at once"
    os.close(write_fd)


def running(sent_at: float, **leases: str) -> str:
    """A heartbeat of a process that runs all tasks of its leases."""
    return json.dumps({"leases": leases, "running": list(leases), "sent_at": sent_at}) + "\n"


def test_a_lease_is_lost_if_its_task_still_runs_after_redis_did_not_know_it(process: Process) -> None:
    process.write(running(time.monotonic(), a="t1"))
    assert not process.child.has_lost("a"), "it may just have ended"
    assert not process.child.has_lost("a"), "it is the same heartbeat"

    process.write(running(time.monotonic(), a="t1"))

    assert process.child.has_lost("a")
    assert not process.child.has_lost("a"), "once is enough"


def test_a_finished_task_has_not_lost_its_lease(process: Process) -> None:
    process.write(running(time.monotonic(), a="t1", b="t1"))
    assert not process.child.has_lost("a")
    assert not process.child.has_lost("b")

    process.write(running(time.monotonic(), a="t2"))  # a has ended and was leased again, b has ended
    assert not process.child.has_lost("a")
    process.write(running(time.monotonic(), a="t2", b="t3"))

    assert process.child.has_lost("a")
    assert not process.child.has_lost("b")


def test_a_task_whose_ack_is_being_sent_has_not_lost_its_lease(process: Process) -> None:
    process.write(running(time.monotonic(), a="t1"))
    assert not process.child.has_lost("a")

    process.write(json.dumps({"leases": {"a": "t1"}, "running": [], "sent_at": time.monotonic()}) + "\n")

    assert not process.child.has_lost("a")


def test_a_process_without_heartbeats_is_first_not_fresh_and_then_stalled(process: Process) -> None:
    assert (process.child.is_fresh(10), process.child.is_stalled(10)) == (True, False)
    for silent_s, fresh, stalled in ((4, True, False), (6, False, False), (9.5, False, True)):
        process.child.heartbeat_at = time.monotonic() - silent_s

        assert (process.child.is_fresh(10), process.child.is_stalled(10)) == (fresh, stalled)

    process.write(line())
    assert process.child.is_fresh(10)


def test_info_describes_the_process(process: Process) -> None:
    runs = [["a", "shop.tasks.send", "mail", 1.5]]
    sent_at = time.monotonic() - 2.0
    fields = {"leases": {"a": "t1", "b": "t1"}, "busy": 1, "finished": 2, "runs": runs, "sent_at": sent_at}
    process.write(json.dumps(fields) + "\n")

    info = json.loads(process.child.info({"version": "1.2"}))

    [[*run, elapsed, limit]] = info.pop("runs")
    assert run == ["a", "shop.tasks.send", "mail"]
    assert limit == 0.0, "it has none"
    assert 3.5 <= elapsed < 60, "as of now, not as of the process's heartbeat"
    assert info.pop("memory") > 0

    assert info.pop("host")
    assert abs(time.time() - info.pop("started_at")) < 60
    assert 0 <= process.child.age_s() < 60
    assert info == {
        "pid": process.process.pid, "queues": ["default", "mail"], "threads": 3, "async_concurrency": 100,
        "busy": 1, "finished": 2, "leases": 2, "version": "1.2",
        "command_line": "default,mail --threads 3 --async-concurrency 100",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("heartbeat", "state"),
    [
        ({"quiet": True}, "quiet"),
        ({"restart_reason": "5 tasks run"}, "restarting"),
        ({"quiet": True, "restart_reason": "x"}, "restarting"),
    ],
)
def test_info_has_the_state_of_the_process(process: Process, heartbeat: dict[str, object], state: str) -> None:
    process.write(json.dumps({"leases": {}} | heartbeat) + "\n")

    assert json.loads(process.child.info())["state"] == state


@pytest.mark.parametrize(
    ("code", "number", "text"),
    [
        ("raise SystemExit(3)", None, "exit code 3"),
        ("import signal; signal.pause()", signal.SIGKILL, "signal SIGKILL"),
    ],
)
def test_poll_exit_returns_how_the_process_exited(code: str, number: int | None, text: str) -> None:
    process = Process(code)
    if number is not None:
        assert process.child.poll_exit() is None
        process.child.signal(number)
    while (exit_text := process.child.poll_exit()) is None:
        time.sleep(0.005)

    assert exit_text == text
    assert os.read(process.commands, 1) == b"", "the pipe is closed"
    process.child.signal(signal.SIGTERM)
    process.process.returncode = 0  # it has been waited for already
    process.close()
