"""In which order a worker asks its queues for tasks: strictly, or by weight."""

from __future__ import annotations

import threading
from collections.abc import Sequence


class Turns:
    """The order for each fetch. With weights 5 and 1 the first queue comes first in five of six, the other in one.

    The turns are spread evenly (a smooth weighted round-robin), so no queue waits for more fetches than the sum
    of the weights. Threads share them.
    """

    def __init__(self, queues: Sequence[str], weights: Sequence[int] = ()) -> None:
        """Args: weights: one for each queue; none: the order in which they are named, always."""
        self._queues = tuple(queues)
        self._weights = tuple(weights)
        self._credits = [0] * len(self._weights)
        self._lock = threading.Lock()

    def order(self) -> tuple[str, ...]:
        """The queues in the order in which the next fetch takes from them."""
        if not self._weights:
            return self._queues
        with self._lock:
            self._credits = [credit + weight for credit, weight in zip(self._credits, self._weights, strict=True)]
            ranked = sorted(range(len(self._queues)), key=lambda at: -self._credits[at])
            self._credits[ranked[0]] -= sum(self._weights)
        return tuple(self._queues[at] for at in ranked)
