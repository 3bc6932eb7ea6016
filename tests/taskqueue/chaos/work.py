"""What runs in the killed processes: tasks that leave a trace, workers and pollers that die at named points.

A trace is a line in the file that ``TRACE`` in the environment names (appended in one write, so that no
server and no death can lose or mix lines): ``start <number> <pid>`` before the effect, ``effect …`` after
it, ``death <point> <pid>``.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from django_redis_components.taskqueue import failpoints, task
from django_redis_components.taskqueue.startup import run_poller, run_worker
from django_redis_components.taskqueue.worker.options import WorkerOptions

#: One in this number of tasks of a chaos test forks.
FORK_EACH = 20


def trace(*words: object) -> None:
    """One line."""
    fd = os.open(os.environ["TRACE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, (" ".join(map(str, words)) + "\n").encode())
    os.close(fd)


@task(max_deliveries=50)
def leave_trace(number: int, seconds: float = 0.0) -> int:
    """Start, work, and have an effect."""
    trace("start", number, os.getpid())
    time.sleep(seconds)
    trace("effect", number, os.getpid())
    return number


@task(max_deliveries=50, result_ttl=86_400)  # the clock of a storm is stepped by an hour
def leave_run(number: int, seconds: float | None) -> str:
    """Note when each run begins and when it has had its effect; return which run this was.

    Args:
        seconds: None: go on until all such tasks are released.
    """
    run = f"{os.getpid()}-{time.monotonic_ns()}"
    trace("begin", number, run, time.monotonic())
    if number % FORK_EACH == 0 and is_forked_child(number):
        return "from a forked child"
    if seconds is None:
        while not released().exists():
            time.sleep(0.02)
    else:
        time.sleep(seconds)
    trace("finish", number, run, time.monotonic())
    return run


def is_forked_child(number: int) -> bool:
    """Fork, and end the function in the child: by an exit, an error or a return. The parent notes how that went."""
    forked_at = time.monotonic()
    pid = os.fork()
    if pid == 0:
        ending = ("exit", "raise", "return")[number // FORK_EACH % 3]
        if ending == "exit":
            sys.exit(3)
        if ending == "raise":
            raise LookupError("in a forked child")
        return True
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with forks().open("a") as file:  # one write, in append mode
        file.write(f"{number} {pid} {code} {forked_at} {time.monotonic()}\n")
    return False


def forks() -> Path:
    """The file that names the processes that tasks have forked."""
    return Path(f"{os.environ['TRACE']}.forks")


def released() -> Path:
    """The file whose existence releases the tasks that go on until then."""
    return Path(f"{os.environ['TRACE']}.released")


@task
def record_delay(number: int, due: float) -> None:
    """Note how late this began, in seconds."""
    trace("late", number, time.time() - due)


def die_at(points: list[list[object]]) -> Callable[[str], None]:
    """A fault hook: kill -9 of this process at planned passages, each once over all processes.

    Each plan is [point, passage]: the process that passes the point for the `passage`-th time dies there.
    """
    guard = threading.Lock()
    passed: dict[str, int] = {}

    def hook(name: str) -> None:
        with guard:
            passed[name] = passed.get(name, 0) + 1
            for point, passage in points:
                if name == point and passed[name] >= int(str(passage)) and _first(f"{os.environ['TRACE']}.{point}"):
                    trace("death", name, os.getpid())
                    os.kill(os.getpid(), signal.SIGKILL)
                    time.sleep(60)

    return hook


def _first(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def worker(threads: int, points: list[list[object]], poller: bool = False) -> int:
    """`runworker`, with its deaths planned."""
    failpoints.hook = die_at(points) if points else None
    return run_worker(WorkerOptions(("default",), threads=threads), print, poller=poller)


def poller(points: list[list[object]]) -> int:
    """`runpoller`, with its deaths planned."""
    failpoints.hook = die_at(points) if points else None
    return run_poller(print)


def faulty_worker() -> int:
    """`runworker high default low --processes 2 --threads 4 --no-poller`."""
    from tests.taskqueue.chaos.faults import PROCESSES, QUEUES

    return run_worker(WorkerOptions(QUEUES, threads=4), print, processes=PROCESSES, poller=False)


def faulty_poller() -> int:
    """`runpoller`."""
    return run_poller(print)
