"""Denials that this process knows of: who is denied until a moment is denied without a round trip until then.

That is certain unless somebody gives back or resets. When this process does, it forgets; when another does, this
one denies until the end of what it knows. Times are monotonic and begin before the question was asked, so that a
denial ends here no later than on the server.
"""

from __future__ import annotations

import os
import threading
import time

from django_redis_components.core import conf
from django_redis_components.ratelimits.decision import Decision

#: Visitors that are kept; further ones push out the oldest. About 700 bytes each.
MAX_VISITORS = 10_000
#: Different questions (limit and cost) that are kept for a visitor.
MAX_QUESTIONS = 16

#: A limit's signature and a cost.
Question = tuple[str, int]


class DenialCache:
    """A bounded table: visitor -> question -> until when, and the decision."""

    def __init__(self) -> None:
        self._visitors: dict[str, dict[Question, tuple[float, Decision]]] = {}
        self._guard = threading.Lock()
        #: Counts what was forgotten: an answer that was asked for before is not stored.
        self.epoch = 0

    def __len__(self) -> int:
        return len(self._visitors)

    def find(self, visitor: str, question: Question) -> Decision | None:
        """The denial that still holds, as it is now; None: ask the server."""
        questions = self._visitors.get(visitor)
        found = questions and questions.get(question)
        if not found:
            return None
        until, decision = found
        left_s = until - time.monotonic()
        if left_s <= 0:
            return None
        reset_s = decision.reset_after - decision.retry_after + left_s
        return Decision(  # dataclasses.replace takes five times as long
            False,
            decision.limit,
            decision.remaining,
            left_s,
            max(left_s, reset_s),
            decision.blocked,
            True,
            decision.states,
        )

    def store(self, visitor: str, question: Question, decision: Decision, asked_at: float, epoch: int) -> None:
        """Keep a denial.

        Args:
            asked_at: monotonic seconds, before the question was sent.
            epoch: `epoch` at that moment.
        """
        with self._guard:
            if epoch != self.epoch:
                return
            questions = self._visitors.pop(visitor, {})
            if len(questions) >= MAX_QUESTIONS:
                questions = {}
            # A table of its own for each change: `find` reads without the guard.
            self._visitors[visitor] = {**questions, question: (asked_at + decision.retry_after, decision)}
            if len(self._visitors) > MAX_VISITORS:
                del self._visitors[next(iter(self._visitors))]

    def forget(self, visitor: str) -> None:
        """Something was given back to the visitor."""
        with self._guard:
            self.epoch += 1
            self._visitors.pop(visitor, None)

    def after_fork(self) -> None:
        """In a child: a thread of the parent may have held the guard."""
        self._guard = threading.Lock()

    def clear(self) -> None:
        """Forget all: the settings may point elsewhere now."""
        with self._guard:
            self.epoch += 1
            self._visitors.clear()


#: The cache of this process.
DENIALS = DenialCache()
conf.on_change(DENIALS.clear)
os.register_at_fork(after_in_child=DENIALS.after_fork)
