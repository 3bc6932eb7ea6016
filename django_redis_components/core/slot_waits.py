"""How long requests wait for Cluster slots that are being moved, as callers limit it; see `client.slot_migration`."""

from __future__ import annotations

import contextvars
import math
import time
import weakref

#: The limits of the `with` blocks around this point: the innermost one, and those around it. The references are weak:
#: Ctrl-C or a soft time limit may interrupt `__enter__` or `__exit__`; then the limit ends with its object.
_limits: contextvars.ContextVar[_Limits | None] = contextvars.ContextVar("slot_wait_limits", default=None)


class slot_wait_limit:  # noqa: N801 - a context manager, used as a function
    """Limit how long the requests of a `with` block, in total, wait for slots that are being moved.

    For callers with other work to do, or with a time limit.
    """

    __slots__ = ("__weakref__", "_before", "_seconds", "give_up_at")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._before: _Limits | None = None
        #: When requests of this block stop waiting, by the monotonic clock.
        self.give_up_at = math.inf

    def __enter__(self) -> None:
        self._before = _current_limits()
        self.give_up_at = min(_give_up_at(self._before), time.monotonic() + self._seconds)
        _limits.set((weakref.ref(self), self._before))

    def __exit__(self, *_: object) -> None:
        _limits.set(
            self._before
        )  # `reset` fails in another context, such as that of a garbage collector that closes a coroutine


_Limits = tuple["weakref.ref[slot_wait_limit]", "_Limits | None"]


def _current_limits() -> _Limits | None:
    """Return the innermost limit whose block has not ended, and those around it."""
    limits = _limits.get()
    while limits is not None and limits[0]() is None:
        limits = limits[1]
    return limits


def _give_up_at(limits: _Limits | None) -> float:
    block = None if limits is None else limits[0]()
    return math.inf if block is None else block.give_up_at


def give_up_at(timeout_s: float) -> float:
    """Return when a request whose slot is moving now stops waiting for it, by the monotonic clock."""
    return min(_give_up_at(_current_limits()), time.monotonic() + timeout_s)
