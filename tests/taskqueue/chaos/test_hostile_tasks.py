"""A worker of four threads beside tasks that break what they can: all tasks of another sender run.

It takes `HOSTILE_SECONDS` (4 by default), for example 600.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from django_redis_components.taskqueue import TaskResult, get_queue
from django_redis_components.taskqueue.exceptions import TaskResultDoesNotExist
from tests.support import Child, Store, eventually
from tests.support.processes import Children
from tests.taskqueue.hostile import tasks
from tests.taskqueue.hostile.errors import KINDS
from tests.taskqueue.support import processes_of, queue_worker
from tools.localserver import free_port

SECONDS = float(os.environ.get("HOSTILE_SECONDS", "4"))
THREADS = 4
#: What health may say in between: a process is being restarted.
KNOWN_PROBLEMS = ("threads of process", "processes run", "has not fetched yet", "no process has fetched yet")

SAMPLES: list[Callable[[], TaskResult[Any]]] = [
    *(lambda kind=kind: tasks.raise_kind.enqueue(kind) for kind in KINDS if kind != "huge"),  # type: ignore[misc]
    *(lambda kind=kind: tasks.raise_kind_async.enqueue(kind) for kind in KINDS if kind != "huge"),  # type: ignore[misc]
    tasks.close_output.enqueue,
    tasks.delete_output.enqueue,
    tasks.break_hooks.enqueue,
    tasks.log_with_a_raising_filter.enqueue,
    tasks.exit_thread.enqueue,
    tasks.cancel_late.enqueue,
    tasks.cancel_all_tasks.enqueue,
    tasks.exhaust_descriptors.enqueue,
    lambda: tasks.leave_transaction.enqueue("return"),
    lambda: tasks.leave_transaction.enqueue("closed"),
    lambda: tasks.leave_transaction_async.enqueue("raise"),
    lambda: tasks.log_repeatedly.using(timeout=(0.05, None)).enqueue(),
]


@pytest.mark.parametrize("filters", ["", "raising filter"])
def test_hostile_tasks_do_not_stop_the_tasks_of_another_sender(
    redis_server: Store, children: Children, tmp_path: Path, filters: str
) -> None:
    port = free_port()
    env = {"DJANGO_SETTINGS_MODULE": "tests.taskqueue.hostile.site", "HOSTILE_SQLITE": str(tmp_path / "db")}
    env |= {"RAISING_FILTER": "1"} if filters else {}
    args = ("good", "default", "--threads", str(THREADS), "--health-port", f"127.0.0.1:{port}")
    worker = queue_worker(children, *args, env=env)
    eventually(lambda: health(port) == "")

    good, hostile, problems = send(worker, port)

    for number, result in enumerate(good):
        assert result.get(60) == number
    eventually(lambda: all(is_finished(result) for result in hostile))
    assert [problem for problem in problems if problem and not any(known in problem for known in KNOWN_PROBLEMS)] == []
    eventually(lambda: health(port) == "")
    assert get_queue("good").info().running == get_queue("default").info().running == 0
    eventually(lambda: living_threads(worker) >= THREADS)


def send(worker: Child, port: int) -> tuple[list[TaskResult[Any]], list[TaskResult[Any]], list[str]]:
    """Send hostile and good tasks for `SECONDS`, each hostile one at least once.

    Return the results, and what health has said.
    """
    good: list[TaskResult[Any]] = []
    hostile: list[TaskResult[Any]] = []
    problems: list[str] = []
    chance = random.Random(11)
    samples = [*SAMPLES, *(chance.choice(SAMPLES) for _ in range(int(SECONDS * 20)))]
    until = time.monotonic() + SECONDS
    for number in itertools.count():
        if time.monotonic() > until and number >= len(SAMPLES):
            break
        hostile.append(samples[number % len(samples)]())
        kept = {"result_ttl": SECONDS + 3_600}  # the first results are read after all tasks are sent
        good += [tasks.good.using(**kept).enqueue(len(good)), tasks.good_async.using(**kept).enqueue(len(good) + 1)]
        if number % 20 == 0:
            problems.append(health(port))
        eventually(lambda: get_queue("default").info().ready < 20)
    return good, hostile, problems


def is_finished(result: TaskResult[Any]) -> bool:
    if not result.is_finished:
        try:
            result.refresh()
        except TaskResultDoesNotExist:  # it has expired since
            return True
    return result.is_finished


def health(port: int) -> str:
    """Return the problem that the worker reports."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as response:
            text = response.read()
    except HTTPError as refused:
        text = refused.read()
    problem: str = json.loads(text)["problem"]
    return problem


def living_threads(worker: Child) -> int:
    """Return the number of threads that run tasks in the newest process of a worker."""
    names = [
        (Path("/proc") / str(pid) / "task").iterdir() if (Path("/proc") / str(pid)).exists() else iter(())
        for pid in processes_of(worker.pid)[-1:]
    ]
    return sum(1 for each in names for _ in each)
