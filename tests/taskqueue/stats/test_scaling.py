"""How many slots and workers a queue needs: for autoscalers, and for a load that was measured."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_redis_components.taskqueue.stats.erlang import slots_for, wait_probability
from django_redis_components.taskqueue.stats.histogram import BUCKETS, Histogram, bounds_of
from django_redis_components.taskqueue.stats.metrics import Counts
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo, QueuePause
from django_redis_components.taskqueue.stats.scaling import wanted_slots
from django_redis_components.taskqueue.stats.totals import QueueTotals

NOW = datetime(2026, 11, 26, 12, 0, 0, tzinfo=UTC)
PAUSE = QueuePause("", "", NOW, None)


def queue(ready: int = 0, running: int = 0, age_s: float | None = None, **facts: Any) -> QueueInfo:
    values = {"scheduled": 0, "failed": 0, "unregistered": 0, "next_due_at": None} | facts
    return QueueInfo("mail", ready=ready, running=running, oldest_age=age_s if ready else None, **values)


def runs_of(seconds: float, count: int) -> Histogram:
    """Return a histogram of runs of this time."""
    bucket = next(at for at in range(BUCKETS) if bounds_of(at)[1] > seconds or at == BUCKETS - 1)
    return Histogram(tuple(count if at == bucket else 0 for at in range(BUCKETS)))


def totals(run_s: float, recent: int, *, recent_s: float = 300.0, ever: int = 1_000) -> QueueTotals:
    """Return the totals of a queue with `recent` runs in the last `recent_s` seconds."""
    return QueueTotals(
        "mail", Counts(), Histogram((0,) * BUCKETS), runs_of(run_s, ever), runs_of(run_s, recent), recent_s
    )


def wanted(found: QueueInfo, counted: QueueTotals | None = None) -> float:
    return wanted_slots(found, counted, NOW.timestamp())


def test_histogram_has_about_the_sum_of_its_durations() -> None:
    durations = [0.001 * 1.02**number for number in range(500)]
    buckets = [sum(low <= each < high for each in durations) for low, high in map(bounds_of, range(BUCKETS))]

    histogram = Histogram(tuple(buckets))

    assert histogram.total_s == pytest.approx(sum(durations), rel=0.05)
    assert histogram.mean_s == pytest.approx(sum(durations) / 500, rel=0.05)
    assert runs_of(600, 3).total_within(100) == 300
    assert runs_of(0.2, 0).mean_s is None


def test_an_empty_queue_needs_nothing() -> None:
    assert wanted(queue()) == 0
    assert wanted(queue(), totals(1, 0)) == 0
    assert wanted(queue(next_due_at=NOW + timedelta(hours=1)), totals(1, 0)) == 0


@pytest.mark.parametrize(
    ("needy", "why"),
    [
        (queue(ready=1, age_s=0.1), "a task is ready"),
        (queue(next_due_at=NOW + timedelta(seconds=30)), "one is due soon"),
        (queue(running=1), "one runs"),
        (queue(ready=5, limited=5, age_s=1), "tasks wait for a limit that nobody holds"),
    ],
)
@pytest.mark.parametrize("known", [None, totals(0.01, 0)])
def test_a_queue_with_work_needs_one_at_least(needy: QueueInfo, why: str, known: QueueTotals | None) -> None:
    assert wanted(needy, known) == 1, why


def test_steady_load_needs_what_it_uses() -> None:
    assert wanted(queue(running=3), totals(1.2, 3_000)) == pytest.approx(12, rel=0.2)


def test_backlog_of_a_burst_is_drained_within_the_aim() -> None:
    """1,200 tasks of a second arrive at once: 20 slots take a minute."""
    burst = wanted(queue(ready=1_200, age_s=1), totals(1.2, 0))

    assert 20 <= burst <= 2 * 1.2 * 20 * 1.2


def test_growing_load_is_known_from_the_age_of_the_oldest_task() -> None:
    """10 slots serve 10 tasks a second, and 20 arrive: since two minutes 10 more each second are ready."""
    slots = wanted(queue(ready=2_400, running=10, age_s=120), totals(1.2, 1_200, recent_s=120))

    assert 20 <= slots <= 1.2 * (20 + 40) * 1.2


def test_never_more_slots_than_tasks_and_never_fewer_than_runs() -> None:
    hours = totals(3_600, 1, ever=1)

    assert wanted(queue(ready=5, running=2, age_s=1), hours) == 7
    assert wanted(queue(running=8), hours) == 8
    assert wanted(queue(running=8)) == 8, "nothing has finished yet"
    assert wanted(queue(running=32), totals(0.001, 0)) == 1, "short tasks are prefetched"


def test_calls_of_a_batch_need_the_slots_of_its_runs() -> None:
    """100 calls a second in one run of a second each: one thread is busy."""
    counted = dataclasses.replace(totals(1.0, 300, ever=1_000), wait_time=runs_of(0.1, 100_000))

    assert 1 <= wanted(queue(running=100), counted) <= 1.5
    assert 1.5 <= wanted(queue(ready=6_000, running=100, age_s=60), counted) <= 3


def test_paused_and_limited_tasks_need_no_slots() -> None:
    assert wanted(queue(ready=1_000, age_s=500, paused=PAUSE), totals(1, 0)) == 0
    assert wanted(queue(ready=1_000, running=2, age_s=500, limited=1_000), totals(1, 0)) == 2


def test_a_long_run_counts_for_the_time_that_is_averaged() -> None:
    """A run of an hour that ended a minute ago has occupied one slot of the last five minutes, not twelve."""
    assert wanted(queue(), totals(3_600, 1)) == 1


@pytest.mark.parametrize(
    ("load", "slots", "expected"),
    [(0.5, 1, 0.5), (2.0, 3, 4 / 9), (8.0, 10, 0.4092), (90.0, 100, 0.2170), (3.0, 3, 1.0)],
)
def test_probability_of_a_wait_is_that_of_the_tables(load: float, slots: int, expected: float) -> None:
    assert wait_probability(load, slots) == pytest.approx(expected, rel=0.002)


def test_slots_are_the_fewest_that_suffice() -> None:
    for load in (0.01, 0.5, 3.0, 40.0, 700.0):
        slots = slots_for(load, within=0.5, share=0.95)

        assert wait_probability(load, slots, 0.5) <= 0.05 < wait_probability(load, slots - 1, 0.5)
