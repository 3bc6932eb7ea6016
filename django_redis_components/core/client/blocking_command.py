"""A blocking command that outlasts the wait for it.

An idle server ends a blocking command 5 to 99 ms after its timeout, so a wait ends by a timer of this process. The
command then stays outstanding on its connection, and the next wait goes on with it. Requests in between use other
connections. No connection returns to its pool while a reply is outstanding on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class BlockingPop:
    """A BLPOP of several lists of one slot, and the connection on which it is outstanding. For one flow.

    Attributes:
        keys: the lists.
        link: the connection; None while nothing is outstanding.
        overdue_at: when the server must have answered (monotonic seconds).
    """

    __slots__ = ("_pool", "keys", "link", "overdue_at")

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)
        self.link: Any = None
        self.overdue_at = 0.0
        self._pool: Any = None

    def begin(self, pool: Any, link: Any, overdue_at: float) -> None:
        """The command is about to be sent on this connection of this pool."""
        self._pool, self.link, self.overdue_at = pool, link, overdue_at

    def answered(self) -> None:
        """The reply was read: the connection returns to its pool."""
        link, self.link = self.link, None
        self._pool.give(link)

    def close(self) -> None:
        """Close the connection if a reply is outstanding on it."""
        link, self.link = self.link, None
        if link is not None:
            link.close()
