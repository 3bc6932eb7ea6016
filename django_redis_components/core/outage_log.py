"""What is said while Redis is away: at once, then once in a while, and when it is back.

Each thread of a worker tries again for itself about twice a second: said each time, an outage of an hour would be
tens of thousands of lines in which nobody finds the first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from redis.exceptions import ResponseError

from django_redis_components.core.client import retry as recovery
from django_redis_components.core.exceptions import SlotMigrating

#: Seconds after which an outage that goes on is spoken of again. Lower: more lines in the log.
SAY_AGAIN_S = 30.0


def cause(exc: Exception) -> str:
    """What is wrong, for the log."""
    if isinstance(exc, SlotMigrating):
        return f"The queue's Cluster slot is being moved ({exc})"
    what = "Redis refuses what it is sent" if is_refusal(exc) else "Redis is away"
    return f"{what} ({type(exc).__name__}: {exc})"


def is_refusal(exc: BaseException) -> bool:
    """Whether the server has answered, and said that it does not do what it was sent."""
    return isinstance(exc, ResponseError) and not isinstance(exc, recovery.REFUSED)


class Outage:
    """The outage that one loop sees; its threads may share it.

    Attributes:
        is_on: whether Redis was away when last somebody told.
    """

    def __init__(self, warn: Callable[[str], object], relieve: Callable[[str], object], who: str = "") -> None:
        """Args:
        warn, relieve: how the text for trouble, and for its end, is said.
        who: stands before the text for its end.
        """
        self._warn = warn
        self._relieve = relieve
        self._who = who
        self._guard = threading.Lock()
        self._began_at = 0.0
        self._said_at = 0.0
        self.is_on = False

    def tell(self, text: str) -> None:
        """Redis is away: say so, unless it was just said."""
        now = time.monotonic()
        with self._guard:
            if self.is_on and now < self._said_at + SAY_AGAIN_S:
                return
            if not self.is_on:
                self.is_on, self._began_at = True, now
            self._said_at = now
        self._warn(text)

    def over(self) -> None:
        """Redis answers: say so, if it was away."""
        if not self.is_on:
            return
        with self._guard:
            was_on, self.is_on = self.is_on, False
        if was_on:
            self._relieve(f"{self._who}Redis answers again, after {time.monotonic() - self._began_at:.1f} s.")
