"""A worker process as its supervisor sees it: beacons, signs of life, its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from django_redis_components.core.client import connections
from django_redis_components.taskqueue.supervisor.child import Beacon, Child, WorkerOptions
from django_redis_components.taskqueue.worker.prefetched import Unbegun
from django_redis_components.taskqueue.worker.process import _Beats
from django_redis_components.taskqueue.worker.worker import Worker
from tests.support import eventually

pytestmark = pytest.mark.integration


class Process:
    """A child process of ours, with the worker's ends of the pipes in the test's hands."""

    def __init__(self, code: str = "import signal; signal.pause()") -> None:
        self.process = subprocess.Popen([sys.executable, "-c", code])
        beacon_read, self.beacon = os.pipe()
        self.life, life_write = os.pipe()
        options = WorkerOptions(("default", "mail"), threads=3)
        self.child = Child(self.process.pid, "host:1", beacon_read, life_write, options, Unbegun())

    def write(self, text: str) -> None:
        os.write(self.beacon, text.encode())
        self.child.read_beacons()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.beacon)
        os.close(self.life)


@pytest.fixture
def process() -> Iterator[Process]:
    made = Process()
    yield made
    made.close()
    made.child.close()


def line(**leases: str) -> str:
    return json.dumps({"leases": leases, "busy": 1, "finished": 2}) + "\n"


def test_the_last_whole_line_counts(process: Process) -> None:
    process.write(line(a="t1") + line(b="t2") + '{"leases": {"c"')

    assert process.child.beacon == Beacon({"b": "t2"}, 1, 2)


def test_a_line_may_come_in_parts(process: Process) -> None:
    text = line(a="t1")

    process.write(text[:10])
    assert process.child.beacon == Beacon({})
    process.write(text[10:])

    assert process.child.beacon.leases == {"a": "t1"}


def test_a_line_that_a_full_pipe_cut_is_passed_over(process: Process) -> None:
    process.write(line(a="t1"))

    process.write('{"leases": {"b": \n')
    assert process.child.beacon.leases == {"a": "t1"}
    process.write(line(c="t3"))

    assert process.child.beacon.leases == {"c": "t3"}


def test_however_many_leases_a_process_holds_its_supervisor_hears_of_all(process: Process) -> None:
    os.set_blocking(process.beacon, False)
    worker = Worker(connections.client("default"), "host:1", ["default"], 1, 0)
    worker.fetcher.held = {f"task-{number:015}": f"host:abcdef.123456/0/{number}" for number in range(5_000)}
    beats = _Beats(process.beacon, worker)

    def heard() -> bool:
        beats.write()
        process.child.read_beacons()
        return process.child.beacon.leases == worker.fetcher.held

    eventually(heard)
    worker.fetcher.held = {"last": "t1"}
    eventually(heard)


def running(made_at: float, **leases: str) -> str:
    """A beacon of a process that runs the tasks it has leased."""
    return json.dumps({"leases": leases, "running": list(leases), "made_at": made_at}) + "\n"


def test_a_lease_is_lost_when_its_task_runs_after_redis_did_not_know_it(process: Process) -> None:
    process.write(running(time.monotonic(), a="t1"))
    assert not process.child.has_lost("a"), "it may just have ended"
    assert not process.child.has_lost("a"), "it is the same beacon"

    process.write(running(time.monotonic(), a="t1"))

    assert process.child.has_lost("a")
    assert not process.child.has_lost("a"), "once is enough"


def test_a_task_that_ended_has_lost_nothing(process: Process) -> None:
    process.write(running(time.monotonic(), a="t1", b="t1"))
    assert not process.child.has_lost("a")
    assert not process.child.has_lost("b")

    process.write(running(time.monotonic(), a="t2"))  # a has ended and was leased again, b has ended
    assert not process.child.has_lost("a")
    process.write(running(time.monotonic(), a="t2", b="t3"))

    assert process.child.has_lost("a")
    assert not process.child.has_lost("b")


def test_an_outcome_that_is_on_its_way_has_lost_nothing(process: Process) -> None:
    process.write(running(time.monotonic(), a="t1"))
    assert not process.child.has_lost("a")

    process.write(json.dumps({"leases": {"a": "t1"}, "running": [], "made_at": time.monotonic()}) + "\n")

    assert not process.child.has_lost("a")


def test_without_beacons_it_is_no_longer_fresh_and_then_stalled(process: Process) -> None:
    assert (process.child.fresh(10), process.child.stalled(10)) == (True, False)
    for silent_s, fresh, stalled in ((4, True, False), (6, False, False), (9.5, False, True)):
        process.child._seen = time.monotonic() - silent_s

        assert (process.child.fresh(10), process.child.stalled(10)) == (fresh, stalled)

    process.write(line())
    assert process.child.fresh(10)


def test_it_says_what_it_is(process: Process) -> None:
    process.write(line(a="t1"))

    said = json.loads(process.child.info())

    assert said.pop("host")
    assert abs(time.time() - said.pop("started_at")) < 60
    assert 0 <= process.child.age_s() < 60
    assert said == {
        "pid": process.process.pid, "queues": ["default", "mail"], "threads": 3, "async_concurrency": 100,
        "busy": 1, "finished": 2, "state": "working",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("said", "state"),
    [({"quiet": True}, "quiet"), ({"leaving": "5 tasks run"}, "leaving"), ({"quiet": True, "leaving": "x"}, "leaving")],
)
def test_it_says_whether_it_fetches(process: Process, said: dict[str, object], state: str) -> None:
    process.write(json.dumps({"leases": {}} | said) + "\n")

    assert json.loads(process.child.info())["state"] == state


@pytest.mark.parametrize(
    ("code", "number", "text"),
    [
        ("raise SystemExit(3)", None, "exit code 3"),
        ("import signal; signal.pause()", signal.SIGKILL, "signal SIGKILL"),
    ],
)
def test_it_tells_how_it_ended(code: str, number: int | None, text: str) -> None:
    process = Process(code)
    if number is not None:
        assert process.child.ended() is None
        process.child.signal(number)
    while (ended := process.child.ended()) is None:
        time.sleep(0.005)

    assert ended == text
    assert os.read(process.life, 1) == b"", "the pipe is closed"
    process.child.signal(signal.SIGTERM)
    process.process.returncode = 0  # it has been waited for already
    process.close()
