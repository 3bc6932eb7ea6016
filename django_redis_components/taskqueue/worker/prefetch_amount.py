"""How fast the runs of a worker process follow each other, and how many tasks a fetch may take beyond its free slots.

The time of a run by the clock says little where threads share one interpreter: of eight that each run
a task of 15 us, seven wait for their turn, 5 ms each. So the time is divided by the number of runs that
go on beside it. The sum over all runs is then the time in which any run went on, and the mean is how
long the process is busy with one task.
"""

from __future__ import annotations

import time

#: Seconds of measured work that a fetch may take beyond the free slots.
AHEAD_S = 0.005
#: Most jobs taken in one fetch beyond the free slots. The server does nothing else while it leases them and settles as
#: many, a few milliseconds.
MAX_AHEAD = 128
#: After so many runs, or seconds of work, the mean is formed anew; a longer run counts at once.
WINDOW_RUNS, WINDOW_S = 32, 0.02
#: Weight of the newest run in the share of coroutines.
SHARE_WEIGHT = 0.1
#: Seconds for which nothing is taken beyond the free slots after jobs have stood too long.
MODEST_S = 1.0


class Pace:
    """Measured by the threads of one process. They may lose each other's figures: a mean of many does not need all.

    Attributes:
        mean_s: seconds that the process is busy with one task.
        async_share: how many of the last jobs were coroutines, from 0 to 1.
        modest_until: nothing is taken beyond the free slots before, by the monotonic clock.
    """

    def __init__(self) -> None:
        self.mean_s = 1.0
        self.async_share = 0.0
        self.modest_until = 0.0
        self._windows = self._runs = 0
        self._busy_s = 0.0

    def ran(self, seconds: float, beside: int) -> None:
        """A task has run in a thread, as one of `beside` runs."""
        self.async_share -= SHARE_WEIGHT * self.async_share
        self._runs = runs = self._runs + 1
        self._busy_s = busy_s = self._busy_s + seconds / beside
        if runs >= WINDOW_RUNS or busy_s >= WINDOW_S:
            self._runs, self._busy_s = 0, 0.0
            self.mean_s = (self.mean_s + busy_s / runs) / 2 if self._windows else busy_s / runs
            self._windows += 1

    def handed_over(self) -> None:
        """A job was a coroutine."""
        self.async_share += SHARE_WEIGHT * (1.0 - self.async_share)

    def be_modest(self) -> None:
        """Jobs have stood too long."""
        self.modest_until = time.monotonic() + MODEST_S

    def ahead(self, free_on_loop: int) -> int:
        """How many jobs a fetch may take beyond the free slots."""
        if time.monotonic() <= self.modest_until:
            return 0
        ahead = min(MAX_AHEAD, int(AHEAD_S / max(self.mean_s, 1e-6)))
        return max(ahead, min(MAX_AHEAD, free_on_loop)) if self.async_share > 0.5 else ahead
