"""The order in which a worker asks its queues: strict, or by weight."""

from __future__ import annotations

import threading
from collections.abc import Sequence


class QueueOrder:
    """The order in which each fetch asks the queues: strict, or by weight.

    With weights 5 and 1 the first queue is first in five of six fetches, the second in one. Smooth weighted
    round-robin: no queue waits for more fetches than the sum of the weights. Threads share it.
    """

    def __init__(self, queues: Sequence[str], weights: Sequence[int] = ()) -> None:
        """
        Args:
            weights: one for each queue, or none for strict order.
        """
        self._lock = threading.Lock()
        self.set(queues, weights)

    def set(self, queues: Sequence[str], weights: Sequence[int] = ()) -> None:
        """Change the queues; see `__init__`."""
        with self._lock:
            self._queues = tuple(queues)
            self._weights = tuple(weights)
            self._credits = [0] * len(self._weights)

    def next(self) -> tuple[str, ...]:
        """Return the queues in the order of the next fetch."""
        if not self._weights:
            return self._queues
        with self._lock:
            if not self._weights:  # since then they have changed
                return self._queues
            self._credits = [credit + weight for credit, weight in zip(self._credits, self._weights, strict=True)]
            ranked = sorted(range(len(self._queues)), key=lambda index: -self._credits[index])
            self._credits[ranked[0]] -= sum(self._weights)
            return tuple(self._queues[index] for index in ranked)
