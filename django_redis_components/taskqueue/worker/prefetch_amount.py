"""How many jobs a fetch may return beyond the free threads, from the measured time of a task."""

from __future__ import annotations

import time

#: Seconds of measured work that a fetch may return beyond the free threads.
PREFETCH_S = 0.005
#: Jobs that a fetch may return beyond the free threads. The server does nothing else while it leases them and settles
#: as many acks, a few milliseconds.
MAX_PREFETCH = 128
#: Runs, or seconds of work, after which the mean is computed anew. A longer run counts at once.
WINDOW_RUNS, WINDOW_S = 32, 0.02
#: Weight of the newest run in the share of coroutines.
SHARE_WEIGHT = 0.1
#: Seconds without prefetching after jobs were buffered for too long.
SUSPENSION_S = 1.0


class PrefetchAmount:
    """How many jobs a fetch may return beyond the free threads, from the measured time of a task.

    The wall time of a run is misleading where threads share one interpreter: if eight threads each run a task of 15 us,
    seven of them wait 5 ms for the interpreter. So the time is divided by the number of concurrent runs. The sum over
    all runs is then the time in which any run was active, and the mean is how long the process is busy with one task.

    Threads share it without a lock, and may lose each other's figures: a mean of many does not need all.

    Attributes:
        mean_s: seconds that the process is busy with one task.
        async_share: share of coroutines among the last jobs, from 0 to 1.
        suspended_until: no prefetching before, on the monotonic clock.
    """

    def __init__(self) -> None:
        self.mean_s = 1.0
        self.async_share = 0.0
        self.suspended_until = 0.0
        self._windows = self._runs = 0
        self._busy_s = 0.0
        self._coroutine_s = 1.0
        self._ended = 0
        self._ended_since = 0.0

    def record_run(self, seconds: float, concurrent: int) -> None:
        """Record a run in a thread, and how many ran at the same time."""
        self.async_share -= SHARE_WEIGHT * self.async_share
        self._runs = runs = self._runs + 1
        self._busy_s = busy_s = self._busy_s + seconds / concurrent
        if runs >= WINDOW_RUNS or busy_s >= WINDOW_S:
            self._runs, self._busy_s = 0, 0.0
            self.mean_s = (self.mean_s + busy_s / runs) / 2 if self._windows else busy_s / runs
            self._windows += 1

    def record_coroutine(self) -> None:
        """Record a job that is a coroutine."""
        self.async_share += SHARE_WEIGHT * (1.0 - self.async_share)

    def record_ended_coroutines(self, number: int) -> None:
        """Record that coroutines have ended: the mean is the time between two of them, whatever each has waited for."""
        self._ended += number
        now = time.monotonic()
        elapsed_s = now - self._ended_since
        if elapsed_s >= WINDOW_S:
            self._coroutine_s = elapsed_s / self._ended
            self._ended, self._ended_since = 0, now

    def work_s(self, jobs: int) -> float:
        """Return for how many seconds this many jobs keep the threads busy. Coroutines run beside each other."""
        return 0.0 if self.async_share > 0.5 else jobs * self.mean_s

    def suspend(self) -> None:
        """Stop prefetching for `SUSPENSION_S`; coroutines until some have ended, since their rate is known then."""
        now = time.monotonic()
        if self.async_share > 0.5:
            self._coroutine_s, self._ended, self._ended_since = 1.0, 0, now
        else:
            self.suspended_until = now + SUSPENSION_S

    def beyond_free_threads(self, free_permits: int) -> int:
        """Return how many jobs a fetch may return beyond the free threads.

        Args:
            free_permits: of the event loop.
        """
        if time.monotonic() <= self.suspended_until:
            return 0
        if self.async_share <= 0.5:
            return min(MAX_PREFETCH, int(PREFETCH_S / max(self.mean_s, 1e-6)))
        return min(MAX_PREFETCH, max(free_permits, int(PREFETCH_S / max(self._coroutine_s, 1e-6))))
