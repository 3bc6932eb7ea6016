"""Run as a script by localserver: stops the servers it was told of once the process that started it is gone.

Reads lines ``+pid`` and ``-pid`` from standard input. Ends when its parent has ended, however that came about.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time

#: Seconds between two looks at the parent. A closed pipe is noticed at once.
LOOK_S = 0.5

#: Seconds a server gets to write its data before it is killed.
GRACE_S = 10.0


def watch() -> set[int]:
    """Keep the set of pids until the parent is gone."""
    parent = os.getppid()
    pids: set[int] = set()
    rest = b""
    while os.getppid() == parent:
        if not select.select([0], [], [], LOOK_S)[0]:
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
    """Ask each to shut down, then make sure."""
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
