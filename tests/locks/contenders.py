"""Contenders that come again and again, moved one request at a time in any order: turns are counted, not time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from django_redis_components.core.protocol import Flow, Wait
from tests.locks.steps import Steps
from tests.support import Store

#: Takes and gives back: the flows of one object.
Flows = tuple[Callable[[], Flow[bool]], Callable[[], Flow[Any]]]


class Contender:
    """One who takes its turn, gives it back and comes again at once.

    Attributes:
        worst: most turns that others had while it stood in line.
    """

    def __init__(self, flows: Flows, names: Sequence[str] = ("all",)) -> None:
        self._take, self._give = flows
        self.names = frozenset(names)
        self.turns = 0
        self.worst = 0
        self._steps: Steps | None = None
        self._holds = False
        #: Who had how many turns since it stood in line; None while it does not.
        self._passed_by: Counter[int] | None = None

    def move(self) -> bool:
        """Do the next request, whatever it is; whether its turn has begun with that."""
        if self._holds:
            self._give_back()
            return False
        if self._steps is None:
            self._steps = Steps(self._take())
        if isinstance(self._steps.request, Wait):
            self._steps.send(None)
        self._steps.go()
        if self._steps.value is True:
            self._begin()
        elif self._passed_by is None:
            self._passed_by = Counter()
        return self._holds

    def see(self, other: Contender, raw: Any) -> None:
        """Somebody else's turn has begun. Whoever hears its bell is served, and has only not looked yet."""
        if self._passed_by is None or not self.names & other.names:
            return
        assert self._steps is not None
        assert isinstance(self._steps.request, Wait)
        if not raw.exists(self._steps.request.wakeup.keys[0]):
            self._passed_by[id(other)] += 1

    def _begin(self) -> None:
        self.worst = max(self.worst, sum((self._passed_by or Counter()).values()))
        self._holds, self._steps, self._passed_by = True, None, None
        self.turns += 1

    def _give_back(self) -> None:
        self._holds = False
        steps = Steps(self._give())
        while steps.request is not None:
            steps.go()
        assert steps.error is None


def contend(store: Store, contenders: Sequence[Contender], moves: int, seed: int) -> None:
    """Let them move in a random order; each is as likely as the next."""
    chance = random.Random(seed)
    for _ in range(moves):
        mover = chance.choice(contenders)
        if mover.move():
            for other in contenders:
                if other is not mover:
                    other.see(mover, store.raw)
