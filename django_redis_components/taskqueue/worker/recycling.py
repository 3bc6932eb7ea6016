"""When a worker process has done enough and is replaced: after so many tasks, or with so much memory."""

from __future__ import annotations

import os
import random
import resource
import sys
from pathlib import Path

#: Share of a limit by which processes differ, so that not all of them are replaced at once.
JITTER = 0.1
#: Bytes in a MiB.
MIB = 1 << 20
#: Where Linux tells how many pages of this process are in memory.
STATM = Path("/proc/self/statm")


class Recycling:
    """The limits of one process, drawn somewhat below what was asked for.

    Attributes:
        max_tasks: tasks after which it fetches nothing more.
        leaving: why it is to be replaced; empty until then.
    """

    def __init__(self, max_tasks: int = 0, max_memory_mib: int = 0) -> None:
        """Args: max_tasks, max_memory_mib: 0 for no limit."""
        self._asked = (max_tasks, max_memory_mib)
        self.max_tasks = max_tasks - random.randint(0, int(max_tasks * JITTER)) if max_tasks else float("inf")
        share = 1 - random.uniform(0, JITTER)
        self._max_bytes = max_memory_mib * MIB * share if max_memory_mib else float("inf")
        self.leaving = ""

    def look(self, finished: int) -> str:
        """Why it is to be replaced, after so many tasks; empty if it is not. What has been said once, stays."""
        if not self.leaving:
            self.leaving = self._reason(finished)
        return self.leaving

    def _reason(self, finished: int) -> str:
        max_tasks, max_memory_mib = self._asked
        if finished >= self.max_tasks:
            return f"{finished:,} tasks run (--max-tasks {max_tasks})"
        if not finished or self._max_bytes == float("inf"):  # before the first task a new process would be no better
            return ""
        taken = memory_bytes()
        if taken > self._max_bytes:
            return f"{taken / MIB:,.0f} MiB taken (--max-memory {max_memory_mib})"
        return ""


def memory_bytes(statm: Path = STATM) -> int:
    """Memory of this process that is resident; where that is not told, the most that it ever was."""
    try:
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1_024


def check_memory(max_memory_mib: int) -> None:
    """Raise ValueError if a limit is below what this process takes before it has run a task."""
    taken = memory_bytes()
    if max_memory_mib and max_memory_mib * MIB * (1 - JITTER) < taken:
        least = int(taken / MIB / (1 - JITTER)) + 1
        raise ValueError(
            f"--max-memory {max_memory_mib}: the site takes {taken / MIB:,.0f} MiB before its first task."
            f" {least} is the least, and room for the tasks comes on top."
        )
