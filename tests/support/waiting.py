"""Poll until a condition is true."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Seconds after which a test fails that waits for an event. Long, because a test that passes never waits so long and a
#: short timeout would fail on a busy machine.
TIMEOUT_S = 60.0

#: Pause after the first try, in seconds; it grows to the second value.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.05


def eventually(check: Callable[[], T], timeout_s: float = TIMEOUT_S) -> T:
    """Call ``check`` until it succeeds, and return its value.

    It succeeds when it returns a true value, or None (a function of asserts). Other exceptions than AssertionError
    are not caught. After ``timeout_s`` the last failure is raised.
    """
    deadline = time.monotonic() + timeout_s
    pause_s = FIRST_PAUSE_S
    while True:
        failure: AssertionError | None = None
        try:
            value = check()
        except AssertionError as exc:
            failure = exc
        else:
            if value is None or value:
                return value
        if time.monotonic() >= deadline:
            raise failure or AssertionError(f"still {value!r} after {timeout_s} s")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)
