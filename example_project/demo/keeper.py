"""Keeps the children of the demo going: says when one ended, and starts it again after a while."""

from __future__ import annotations

import time
from dataclasses import dataclass

from example_project.demo.console import Console
from example_project.demo.processes import Child

#: Seconds before an ended child is started again; doubled each time that it does not last.
FIRST_PAUSE_S = 1.0

#: Longest pause between two starts, in seconds.
LONGEST_PAUSE_S = 30.0

#: Seconds that a child must last for its pause to begin afresh.
LASTING_S = 60.0


@dataclass
class _Kept:
    child: Child
    grace_s: float
    started_at: float
    pause_s: float = FIRST_PAUSE_S
    again_at: float | None = None


class Keeper:
    """The children in the order in which they are stopped."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._kept: list[_Kept] = []

    def start(self, child: Child, grace_s: float) -> None:
        """Start a child and keep it; ``grace_s`` is what it gets to end when the demo does."""
        child.start()
        self._kept.append(_Kept(child, grace_s, time.monotonic()))

    def look(self) -> None:
        """See whether all run; call it several times a second."""
        for kept in self._kept:
            if kept.again_at is not None:
                self._start_again(kept)
            elif kept.child.code is not None:
                self._notice_end(kept)

    def stop(self, hurried: list[int]) -> None:
        """End all, in order. ``hurried`` fills when the user asks a second time."""
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
