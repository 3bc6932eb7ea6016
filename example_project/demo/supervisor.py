"""Supervises the demo's child processes: reports an exit and restarts the process with a delay."""

from __future__ import annotations

import time
from dataclasses import dataclass

from example_project.demo.console import Console
from example_project.demo.processes import Child

#: Seconds until a process is restarted; doubled after each early exit.
INITIAL_DELAY_S = 1.0

#: Longest delay of a restart, in seconds.
MAX_DELAY_S = 30.0

#: Uptime in seconds after which the delay is reset.
STABLE_AFTER_S = 60.0


@dataclass
class _Supervised:
    child: Child
    grace_s: float
    started_at: float
    delay_s: float = INITIAL_DELAY_S
    restart_at: float | None = None


class Supervisor:
    """The child processes, in the order in which they are stopped."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._entries: list[_Supervised] = []

    def start(self, child: Child, grace_s: float) -> None:
        """Start a process and supervise it; ``grace_s`` is its grace period on shutdown."""
        child.start()
        self._entries.append(_Supervised(child, grace_s, time.monotonic()))

    def check(self) -> None:
        """Check all processes; call it several times per second."""
        for entry in self._entries:
            if entry.restart_at is not None:
                self._restart(entry)
            elif entry.child.code is not None:
                self._report_exit(entry)

    def stop(self, signals: list[int]) -> None:
        """Stop all processes in order. A second entry in ``signals`` kills the remaining processes."""
        for entry in self._entries:
            if entry.restart_at is None and not entry.child.stop(entry.grace_s, lambda: len(signals) > 1):
                self._console.info(f"{entry.child.name} did not stop in time and was killed")
            else:
                self._console.info(f"{entry.child.name} stopped")
        self._entries.clear()

    def _report_exit(self, entry: _Supervised) -> None:
        if time.monotonic() - entry.started_at > STABLE_AFTER_S:
            entry.delay_s = INITIAL_DELAY_S
        code = entry.child.code
        how = f"was killed by signal {-code}" if code and code < 0 else f"exited with code {code}"
        self._console.info(f"!!! {entry.child.name} {how}; restarting it in {entry.delay_s:.0f} s")
        entry.child.wait(lambda: True)
        entry.restart_at = time.monotonic() + entry.delay_s
        entry.delay_s = min(entry.delay_s * 2, MAX_DELAY_S)

    def _restart(self, entry: _Supervised) -> None:
        if entry.restart_at is None or time.monotonic() < entry.restart_at:
            return
        entry.restart_at = None
        entry.started_at = time.monotonic()
        entry.child.start()
        self._console.info(f"{entry.child.name} has restarted, process {entry.child.pid}")
