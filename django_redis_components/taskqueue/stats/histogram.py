"""How times are spread: counts in buckets, and the quantiles that follow from them."""

from __future__ import annotations

import dataclasses

#: Buckets: under 1 ms, then two for each doubling, the last one without an end (from about 2.3 hours on).
BUCKETS = 48
#: Where the second bucket begins, in seconds.
FIRST_S = 0.001


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """Times by bucket. A quantile is right to the bucket that it falls into, whose ends are a factor of 1.41 apart."""

    buckets: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many times there are."""
        return sum(self.buckets)

    @property
    def p50(self) -> float | None:
        """Half of the times were shorter, in seconds; None without any."""
        return self.quantile(0.5)

    @property
    def p95(self) -> float | None:
        """95 % of the times were shorter, in seconds; None without any."""
        return self.quantile(0.95)

    @property
    def p99(self) -> float | None:
        """99 % of the times were shorter, in seconds; None without any."""
        return self.quantile(0.99)

    def quantile(self, share: float) -> float | None:
        """The time that this share (0 to 1) of all was shorter than, in seconds, as if each bucket were filled evenly.

        Times in the last bucket are told by its begin. None without any times.
        """
        rank = share * self.count
        below = 0
        for at, count in enumerate(self.buckets):
            if count and below + count >= rank:
                begin_s, end_s = ends_of(at)
                return begin_s + (end_s - begin_s) * (rank - below) / count
            below += count
        return None


def ends_of(bucket: int) -> tuple[float, float]:
    """Where a bucket begins and ends, in seconds; the last one has no end, and is told by its begin."""
    begin_s = FIRST_S * 2 ** ((bucket - 1) / 2) if bucket else 0.0
    last = bucket == BUCKETS - 1
    return begin_s, begin_s if last else FIRST_S * 2 ** (bucket / 2)
