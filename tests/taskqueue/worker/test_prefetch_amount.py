"""How many jobs a fetch requests, by the measured time per task."""

from __future__ import annotations

import time

import pytest

from django_redis_components.core.client import connections
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.worker import prefetch
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from django_redis_components.taskqueue.worker.prefetch import MAX_BUFFERED_S, MAX_BUFFERED_WORK_S, PrefetchBuffer
from django_redis_components.taskqueue.worker.prefetch_amount import (
    MAX_PREFETCH,
    PREFETCH_S,
    WINDOW_RUNS,
    WINDOW_S,
    PrefetchAmount,
)
from tests.support import Store


def test_nothing_is_prefetched_before_the_first_measurement() -> None:
    assert PrefetchAmount().beyond_free_threads(0) == 0


def test_quick_tasks_are_prefetched() -> None:
    pace = PrefetchAmount()

    for _ in range(WINDOW_RUNS):
        pace.record_run(1 / 2048, concurrent=1)

    assert pace.beyond_free_threads(0) == 10


def test_time_of_other_threads_does_not_count_as_run_time() -> None:
    """Eight threads with tasks of 10 us take turns of 5 ms: the first task of a turn began before the seven others'."""
    pace = PrefetchAmount()

    for _ in range(40):
        pace.record_run(0.035, concurrent=8)
        for _ in range(480):
            pace.record_run(0.00001, concurrent=8)

    assert pace.mean_s < 0.0001
    assert pace.beyond_free_threads(0) > 50


def test_slow_task_stops_prefetching_at_once() -> None:
    pace = PrefetchAmount()
    for _ in range(WINDOW_RUNS * 10):
        pace.record_run(0.00001, concurrent=1)
    assert pace.beyond_free_threads(0) == MAX_PREFETCH

    pace.record_run(WINDOW_S, concurrent=1)

    assert pace.mean_s > PREFETCH_S
    assert pace.beyond_free_threads(0) == 0


def test_nothing_is_prefetched_after_a_pause() -> None:
    pace = PrefetchAmount()
    for _ in range(WINDOW_RUNS):
        pace.record_run(0.00001, concurrent=1)

    pace.suspend()

    assert pace.beyond_free_threads(0) == 0


def new_amount_of_coroutines() -> PrefetchAmount:
    amount = PrefetchAmount()
    for _ in range(50):
        amount.record_coroutine()
    return amount


def test_coroutines_are_prefetched_for_the_free_permits() -> None:
    assert new_amount_of_coroutines().beyond_free_threads(7) == 7


def test_buffered_coroutines_are_not_taken_for_work_of_the_threads() -> None:
    """Each would be returned to its queue before it starts, and leased again."""
    assert new_amount_of_coroutines().work_s(100) == 0.0
    assert PrefetchAmount().work_s(100) > MAX_BUFFERED_WORK_S


def test_coroutines_are_prefetched_by_the_rate_at_which_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(prefetch.time, "monotonic", lambda: clock[0])
    amount = new_amount_of_coroutines()
    amount.record_ended_coroutines(1)
    for _ in range(int(2 * WINDOW_S / 0.0005)):
        clock[0] += 0.0005
        amount.record_ended_coroutines(1)

    assert 9 <= amount.beyond_free_threads(0) <= 10

    amount.suspend()
    assert amount.beyond_free_threads(0) == 0
    assert amount.beyond_free_threads(3) == 3


def test_buffered_job_is_stuck_only_while_it_is_next(redis_server: Store) -> None:
    """Beside computing threads, the one that checks the buffer may run after 40 ms, and find another job."""
    first, second = (Job(name, "w/0/1", "noop", b"", "default", 0, 0, 0, 0, 0) for name in ("first", "second"))
    buffer = PrefetchBuffer(Fetcher(home(), connections.client(), "here:1", ["default"]), PrefetchAmount())
    buffer.put([first, second])
    long_ago = time.monotonic() - 2 * MAX_BUFFERED_S
    assert buffer.is_stuck(first, long_ago)

    buffer.pop()

    assert not buffer.is_stuck(first, long_ago)
