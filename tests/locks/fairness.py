"""Fairness measured in grants, not in time: contenders acquire and release repeatedly, one request at a time."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from django_redis_components.core.protocol import Flow, Wait
from tests.locks.steps import Steps
from tests.support import Store

#: Returns the flows that acquire and release one object.
Flows = tuple[Callable[[], Flow[bool]], Callable[[], Flow[Any]]]


def lengthen_handoffs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give waiters ten minutes to accept a hand-off: on a busy machine some would lose their turn in two seconds."""
    for module in [module for name, module in sys.modules.items() if name.startswith("django_redis_components.")]:
        if hasattr(module, "HANDOFF_MS"):
            monkeypatch.setattr(module, "HANDOFF_MS", 600_000)


class Contender:
    """A client that acquires, releases and acquires again at once.

    Attributes:
        max_overtaken: most grants to others during one of its waits.
    """

    def __init__(self, flows: Flows, names: Sequence[str] = ("all",)) -> None:
        self._acquire, self._release = flows
        self.names = frozenset(names)
        self.grants = 0
        self.max_overtaken = 0
        self._steps: Steps | None = None
        self._has_lease = False
        #: Grants to each other contender since this one was queued; None while it is not queued.
        self._overtaken_by: Counter[int] | None = None

    def step(self) -> bool:
        """Perform the next request. Return whether it granted the lease."""
        if self._has_lease:
            self._finish()
            return False
        if self._steps is None:
            self._steps = Steps(self._acquire())
        if isinstance(self._steps.request, Wait):
            self._steps.send(None)
        self._steps.perform()
        if self._steps.value is True:
            self._start()
        elif self._overtaken_by is None:
            self._overtaken_by = Counter()
        return self._has_lease

    def count_grant(self, other: Contender, raw: Any) -> None:
        """Count a grant to another contender, unless this one was granted too and has not read its wakeup yet."""
        if self._overtaken_by is None or not self.names & other.names:
            return
        assert self._steps is not None
        assert isinstance(self._steps.request, Wait)
        if not raw.exists(self._steps.request.wakeup.keys[0]):
            self._overtaken_by[id(other)] += 1

    def _start(self) -> None:
        self.max_overtaken = max(self.max_overtaken, sum((self._overtaken_by or Counter()).values()))
        self._has_lease, self._steps, self._overtaken_by = True, None, None
        self.grants += 1

    def _finish(self) -> None:
        self._has_lease = False
        steps = Steps(self._release())
        while steps.request is not None:
            steps.perform()
        assert steps.error is None


def contend(store: Store, contenders: Sequence[Contender], requests: int, seed: int) -> None:
    """Perform this many requests, each of a random contender."""
    rng = random.Random(seed)
    for _ in range(requests):
        active = rng.choice(contenders)
        if active.step():
            for other in contenders:
                if other is not active:
                    other.count_grant(active, store.raw)
