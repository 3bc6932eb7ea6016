"""When a run takes longer than usual."""

from __future__ import annotations

import pytest

from django_redis_components.taskqueue.stats.histogram import BUCKETS, Histogram
from django_redis_components.taskqueue.stats.run_time import is_overlong

#: 100 runs of about 40 ms, and 100 of about a minute.
SHORT = Histogram(tuple(100 if bucket == 11 else 0 for bucket in range(BUCKETS)))
LONG = Histogram(tuple(100 if bucket == 32 else 0 for bucket in range(BUCKETS)))
EMPTY = Histogram((0,) * BUCKETS)


@pytest.mark.parametrize(("elapsed_s", "expected"), [(59.0, False), (61.0, True)])
def test_run_of_a_short_task_is_overlong_after_a_minute(elapsed_s: float, expected: bool) -> None:
    assert SHORT.p95 < 1

    assert is_overlong(elapsed_s, SHORT) is expected


def test_run_of_a_long_task_is_overlong_after_ten_times_its_p95() -> None:
    assert LONG.p95 > 30

    assert not is_overlong(9 * LONG.p95, LONG)
    assert is_overlong(11 * LONG.p95, LONG)


@pytest.mark.parametrize("run_time", [None, EMPTY])
def test_run_of_an_unknown_task_is_overlong_after_an_hour(run_time: Histogram | None) -> None:
    assert not is_overlong(3_599, run_time)
    assert is_overlong(3_601, run_time)


@pytest.mark.parametrize("run_time", [None, EMPTY])
def test_run_of_an_unknown_task_with_a_time_limit_is_never_overlong(run_time: Histogram | None) -> None:
    assert not is_overlong(100_000, run_time, has_time_limit=True)


def test_time_limit_does_not_matter_when_run_times_are_known() -> None:
    assert is_overlong(61, SHORT, has_time_limit=True)
