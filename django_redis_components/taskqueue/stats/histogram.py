"""Histograms of durations and their quantiles."""

from __future__ import annotations

import dataclasses
import math

#: Buckets: below 1 ms, then two per doubling. The last one has no upper bound (from about 2.3 hours).
BUCKETS = 48
#: Lower bound of the second bucket, in seconds.
FIRST_S = 0.001


@dataclasses.dataclass(frozen=True, slots=True)
class Histogram:
    """Durations counted by bucket. The bounds of a bucket differ by a factor of 1.41, which limits the precision."""

    buckets: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of durations."""
        return sum(self.buckets)

    @property
    def total_s(self) -> float:
        """About the sum of the durations in seconds, at most 18 % off: each counts as the middle of its bucket."""
        return self.total_within(math.inf)

    @property
    def mean_s(self) -> float | None:
        """About the mean in seconds; None if empty."""
        count = self.count
        return self.total_s / count if count else None

    def total_within(self, limit_s: float) -> float:
        """Return about the sum of the durations in seconds, of each not more than `limit_s`."""
        return sum(
            count * min(middle_s, limit_s) for count, middle_s in zip(self.buckets, _MIDDLES_S, strict=True) if count
        )

    @property
    def p50(self) -> float | None:
        """The median in seconds; None if empty."""
        return self.quantile(0.5)

    @property
    def p95(self) -> float | None:
        """The 95th percentile in seconds; None if empty."""
        return self.quantile(0.95)

    @property
    def p99(self) -> float | None:
        """The 99th percentile in seconds; None if empty."""
        return self.quantile(0.99)

    def quantile(self, share: float) -> float | None:
        """Return a quantile in seconds, interpolated within its bucket.

        Args:
            share: from 0 to 1.

        Returns:
            The quantile; the lower bound for the last bucket; None if empty.
        """
        rank = share * self.count
        below = 0
        for bucket, count in enumerate(self.buckets):
            if count and below + count >= rank:
                low_s, high_s = bounds_of(bucket)
                return low_s + (high_s - low_s) * (rank - below) / count
            below += count
        return None


def runs_per_task(runs: Histogram, waits: Histogram) -> float:
    """Return how many runs a task takes: less than one if batches run several in one. A wait is counted for each task.

    Args:
        runs, waits: the run times and the waits that were counted together.
    """
    return min(1.0, max(1, runs.count) / waits.count) if waits.count else 1.0


def bounds_of(bucket: int) -> tuple[float, float]:
    """Return the bounds of a bucket in seconds; for the last one both are the lower bound."""
    low_s = FIRST_S * 2 ** ((bucket - 1) / 2) if bucket else 0.0
    is_last = bucket == BUCKETS - 1
    return low_s, low_s if is_last else FIRST_S * 2 ** (bucket / 2)


def _middle_of(bucket: int) -> float:
    """Return the mean of durations whose logarithms are evenly distributed in a bucket; in the first, the durations."""
    low_s, high_s = bounds_of(bucket)
    if not low_s or low_s == high_s:
        return (low_s + high_s) / 2
    return (high_s - low_s) / math.log(high_s / low_s)


_MIDDLES_S = tuple(_middle_of(bucket) for bucket in range(BUCKETS))
