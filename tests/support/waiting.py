"""Waiting for something that becomes true."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Seconds that a test waits for what must come, on however busy a machine. Nothing passes sooner or later for it:
#: a limit that is never reached costs nothing, and a shorter one measures the machine.
PATIENCE_S = 60.0

#: Seconds between two tries, growing to the second figure.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.05


def eventually(check: Callable[[], T], timeout_s: float = PATIENCE_S) -> T:
    """Call ``check`` until it holds, and return what it returned.

    It holds when it returns something true, or returns None without raising AssertionError (a function of
    asserts). Other exceptions pass through. After ``timeout_s`` the last failure is raised.
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
