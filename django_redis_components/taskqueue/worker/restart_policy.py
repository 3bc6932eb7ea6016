"""When a worker process is restarted: after a number of tasks, or with too much memory."""

from __future__ import annotations

import os
import random
import resource
import sys
from pathlib import Path

#: Share of a limit by which processes differ, so that they are not all restarted at the same time.
JITTER = 0.1
#: Bytes in a MiB.
MIB = 1 << 20
#: Where Linux states how many pages of this process are resident.
STATM = Path("/proc/self/statm")


class RestartPolicy:
    """When a process is restarted: after a number of tasks, or with too much memory.

    Attributes:
        max_tasks: tasks after which it fetches nothing more; somewhat below the option.
        reason: why it must be restarted; empty until then.
    """

    def __init__(self, max_tasks: int = 0, max_memory_mib: int = 0) -> None:
        """
        Args:
            max_tasks, max_memory_mib: 0 for no limit.
        """
        self._options = (max_tasks, max_memory_mib)
        self.max_tasks = max_tasks - random.randint(0, int(max_tasks * JITTER)) if max_tasks else float("inf")
        share = 1 - random.uniform(0, JITTER)
        self._max_bytes = max_memory_mib * MIB * share if max_memory_mib else float("inf")
        self.reason = ""

    def check(self, finished: int) -> str:
        """Return the reason to restart the process after this number of tasks; empty without one."""
        if not self.reason:
            self.reason = self._find_reason(finished)
        return self.reason

    def _find_reason(self, finished: int) -> str:
        max_tasks, max_memory_mib = self._options
        if finished >= self.max_tasks:
            return f"it has run {finished:,} tasks (--max-tasks {max_tasks})"
        if not finished or self._max_bytes == float("inf"):  # a new process would need as much before its first task
            return ""
        used = memory_bytes()
        if used > self._max_bytes:
            return f"it uses {used / MIB:,.0f} MiB (--max-memory {max_memory_mib})"
        return ""


def memory_bytes(statm: Path = STATM) -> int:
    """Return the resident memory of this process, or its maximum so far where the system does not state it."""
    try:
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1_024


def check_memory(max_memory_mib: int) -> None:
    """Raise ValueError if the limit is below what this process uses before its first task."""
    used = memory_bytes()
    if max_memory_mib and max_memory_mib * MIB * (1 - JITTER) < used:
        minimum = int(used / MIB / (1 - JITTER)) + 1
        raise ValueError(
            f"--max-memory {max_memory_mib} is too low: the site uses {used / MIB:,.0f} MiB before its first task."
            f" Use {minimum} plus the memory of the tasks."
        )
