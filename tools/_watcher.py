"""Run as a script by localserver: stops the registered servers after the parent process exits.

Reads lines ``+pid`` and ``-pid`` from standard input. Exits after its parent, also if that was killed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time

#: Seconds between two checks of the parent. A closed pipe is detected at once.
POLL_S = 0.5

#: Grace period in seconds before a server is killed.
GRACE_S = 10.0


def watch() -> set[int]:
    """Return the registered pids once the parent has exited."""
    parent = os.getppid()
    pids: set[int] = set()
    rest = b""
    while os.getppid() == parent:
        if not select.select([0], [], [], POLL_S)[0]:
            continue
        data = os.read(0, 4096)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            pid = int(line[1:])
            if line.startswith(b"+"):
                pids.add(pid)
            else:
                pids.discard(pid)
    return pids


def stop(pids: set[int]) -> None:
    """Send SIGTERM, then SIGKILL after the grace period."""
    for signal_number, wait_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, 1.0)):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal_number)
        deadline = time.monotonic() + wait_s
        while pids and time.monotonic() < deadline:
            pids = {pid for pid in pids if _alive(pid)}
            time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    stop(watch())
    sys.exit(0)
