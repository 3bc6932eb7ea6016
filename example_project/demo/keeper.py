"""Supervises the demo's child processes: reports an exit and restarts the process with a delay."""

from __future__ import annotations

import time
from dataclasses import dataclass

from example_project.demo.console import Console
from example_project.demo.processes import Child

#: Seconds until a process is restarted; doubled after each early exit.
FIRST_PAUSE_S = 1.0

#: Longest delay of a restart, in seconds.
LONGEST_PAUSE_S = 30.0

#: Uptime in seconds after which the delay is reset.
LASTING_S = 60.0


@dataclass
class _Kept:
    child: Child
    grace_s: float
    started_at: float
    pause_s: float = FIRST_PAUSE_S
    again_at: float | None = None


class Keeper:
    """The child processes, in the order in which they are stopped."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._kept: list[_Kept] = []

    def start(self, child: Child, grace_s: float) -> None:
        """Start a process and supervise it; ``grace_s`` is its grace period on shutdown."""
        child.start()
        self._kept.append(_Kept(child, grace_s, time.monotonic()))

    def look(self) -> None:
        """Check all processes; call it several times per second."""
        for kept in self._kept:
            if kept.again_at is not None:
                self._start_again(kept)
            elif kept.child.code is not None:
                self._notice_end(kept)

    def stop(self, hurried: list[int]) -> None:
        """Stop all processes in order. ``hurried`` is set when the user interrupts a second time."""
        for kept in self._kept:
            if kept.again_at is None and not kept.child.stop(kept.grace_s, lambda: len(hurried) > 1):
                self._console.say(f"{kept.child.name} did not stop in time and was killed")
            else:
                self._console.say(f"{kept.child.name} stopped")
        self._kept.clear()

    def _notice_end(self, kept: _Kept) -> None:
        if time.monotonic() - kept.started_at > LASTING_S:
            kept.pause_s = FIRST_PAUSE_S
        code = kept.child.code
        how = f"was killed by signal {-code}" if code and code < 0 else f"ended with exit code {code}"
        self._console.say(f"!!! {kept.child.name} {how}; it is started again in {kept.pause_s:.0f} s")
        kept.child.wait(lambda: True)
        kept.again_at = time.monotonic() + kept.pause_s
        kept.pause_s = min(kept.pause_s * 2, LONGEST_PAUSE_S)

    def _start_again(self, kept: _Kept) -> None:
        if kept.again_at is None or time.monotonic() < kept.again_at:
            return
        kept.again_at = None
        kept.started_at = time.monotonic()
        kept.child.start()
        self._console.say(f"{kept.child.name} runs again, process {kept.child.pid}")
