"""Whether a run takes longer than usual, from the run times of its task's name."""

from __future__ import annotations

from django_redis_components.taskqueue.stats.histogram import Histogram

#: A run is overlong beyond this multiple of the 95th percentile of its name,
OVERLONG_FACTOR = 10
#: and beyond this time in seconds: ten times of a few milliseconds is no problem.
MIN_OVERLONG_S = 60.0
#: The same in seconds for a run of a name without known run times, and without a time limit that would end it.
UNKNOWN_OVERLONG_S = 3_600.0


def is_overlong(elapsed_s: float, run_time: Histogram | None, *, has_time_limit: bool = False) -> bool:
    """Return whether a run has taken so much longer than usual that it may hang.

    Args:
        elapsed_s: seconds since the run began.
        run_time: run times of earlier tasks of the same name; None or empty: nothing is known.
        has_time_limit: whether the task has a time limit. It counts only if nothing else is known.
    """
    p95_s = run_time.p95 if run_time is not None else None
    if p95_s is None:
        return not has_time_limit and elapsed_s > UNKNOWN_OVERLONG_S
    return elapsed_s > max(MIN_OVERLONG_S, OVERLONG_FACTOR * p95_s)
