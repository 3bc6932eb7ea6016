"""How much a fetch may take follows from how long the process is busy with a task, not from how long a thread is."""

from __future__ import annotations

import time

from django_redis_components.core.client import connections
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from django_redis_components.taskqueue.worker.prefetch_amount import AHEAD_S, MAX_AHEAD, WINDOW_RUNS, WINDOW_S, Pace
from django_redis_components.taskqueue.worker.prefetch_buffer import HOARD_S, Buffer
from tests.support import Store


def test_nothing_is_taken_ahead_before_anything_was_measured() -> None:
    assert Pace().ahead(0) == 0


def test_quick_tasks_are_taken_ahead() -> None:
    pace = Pace()

    for _ in range(WINDOW_RUNS):
        pace.ran(1 / 2048, beside=1)

    assert pace.ahead(0) == 10


def test_the_time_in_which_other_threads_had_the_interpreter_is_not_the_tasks() -> None:
    """Eight threads with tasks of 10 us take turns of 5 ms: the first task of a turn began before the seven others'."""
    pace = Pace()

    for _ in range(40):
        pace.ran(0.035, beside=8)
        for _ in range(480):
            pace.ran(0.00001, beside=8)

    assert pace.mean_s < 0.0001
    assert pace.ahead(0) > 50


def test_a_slow_task_ends_the_taking_ahead_at_once() -> None:
    pace = Pace()
    for _ in range(WINDOW_RUNS * 10):
        pace.ran(0.00001, beside=1)
    assert pace.ahead(0) == MAX_AHEAD

    pace.ran(WINDOW_S, beside=1)

    assert pace.mean_s > AHEAD_S
    assert pace.ahead(0) == 0


def test_after_jobs_have_stood_too_long_nothing_is_taken_ahead() -> None:
    pace = Pace()
    for _ in range(WINDOW_RUNS):
        pace.ran(0.00001, beside=1)

    pace.be_modest()

    assert pace.ahead(0) == 0


def test_a_job_stands_too_long_only_while_it_is_the_next_one(redis_server: Store) -> None:
    """Where threads compute, the one that looks after the buffer may get its turn after 40 ms, and find another job."""
    first, second = (Job(name, "w/0/1", "noop", b"", "default", 0, 0, 0, 0, 0) for name in ("first", "second"))
    buffer = Buffer(Fetcher(connections.client(), "here:1", ["default"]), Pace())
    buffer.put([first, second])
    long_ago = time.monotonic() - 2 * HOARD_S
    assert buffer._stands(first, long_ago)

    buffer.pop()

    assert not buffer._stands(first, long_ago)
