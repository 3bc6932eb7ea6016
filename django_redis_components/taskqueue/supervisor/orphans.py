"""Wait for adopted processes, as process 1 of a container must.

A task may start a process that outlives its parent. The system gives such an orphan to process 1, or to a subreaper
(`PR_SET_CHILD_SUBREAPER`). If that is the supervisor, the orphan stays a zombie after its exit until the supervisor
waits for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Collection
from pathlib import Path

#: Option of Linux's prctl(2) that reads whether orphaned descendants become children of this process.
PR_GET_CHILD_SUBREAPER = 37
#: Where Linux lists the children of each thread of this process.
TASKS = Path("/proc/self/task")


class OrphanReaper:
    """Waits for the orphans that this process has adopted, and for no other process.

    Processes that exist when it is created were started by the site in this process; their exit codes are the site's.
    """

    def __init__(self) -> None:
        self._is_adopting = _adopts_orphans()
        self._others = _children() if self._is_adopting else frozenset()

    def reap(self, started: Collection[int]) -> list[int]:
        """Wait for the adopted processes that have exited; return their pids.

        Args:
            started: pids of the processes that the caller has started, and waits for itself.
        """
        if not self._is_adopting:
            return []
        adopted = _children() - self._others - frozenset(started)
        return [pid for pid in adopted if _has_exited(pid)]


def _adopts_orphans() -> bool:
    if os.getpid() == 1:
        return True
    is_subreaper = ctypes.c_int(0)
    try:
        error = ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(is_subreaper), 0, 0, 0)
    except (AttributeError, OSError, TypeError):  # not Linux
        return False
    return error == 0 and is_subreaper.value == 1


def _children() -> frozenset[int]:
    """Return the pids of this process's children; none where the system does not list them."""
    found: set[int] = set()
    for path in TASKS.glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has exited
            found.update(map(int, path.read_text().split()))
    return frozenset(found)


def _has_exited(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):  # another thread has waited for it
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return False
