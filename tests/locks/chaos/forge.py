"""Sixteen processes that take locks, while one after the other is killed or stopped for longer than a lease.

Half of these faults are for processes that wait, and now and then a server is stopped, also for longer than a lease.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import time
import traceback

from django_redis_components.core.leasing import wait_queue
from tests.locks.chaos.board import Board
from tests.locks.chaos.holders import LEASE_S, WAITING, Smith
from tests.locks.chaos.kinds import take_out

PROCESSES = 16
#: Seconds between two faults, at most.
FAULT_EVERY_S = 0.8
#: Seconds for which a process is stopped.
STOPPED_S = (1.2 * LEASE_S, 2.5 * LEASE_S)
#: Seconds for which a server is stopped, and how often it is.
STALLED_S = (0.2 * LEASE_S, 1.3 * LEASE_S)
STALLS = 0.15
#: What a run must have seen before it may end, and how often.
ENOUGH = {"killed": 3, "stopped inside": 2, "cancelled": 5, "extended": 5, "killed waiting": 1, "stopped waiting": 1}
ENOUGH |= {"stalls": 1}
#: The same of kinds whose grants have fencing tokens, and of the others.
FENCED, COUNTED = {"grants": 100, "stale writes": 1}, {"readers": 100}
#: Milliseconds of a hand-off: a quarter of the usual ones, as half of those who wait here are dead or stopped.
HANDOFF_MS = 500
#: Seconds by which a run may be longer to see it: a busy machine is slow.
EXTRA_S = 40


def forge(kind: str, seconds: float, seed: int, directory: str, without: str, servers: list[int]) -> dict[str, int]:
    """Let them work for so long, or until there is enough to judge by; return what happened how often."""
    board = Board()
    wait_queue.HANDOFF_MS = HANDOFF_MS
    take_out(without)
    crew = Crew(directory, kind, random.Random(seed), board, servers)
    try:
        crew.work(seconds)
    finally:
        crew.end()
    return board.counts()


class Crew:
    """The processes of a run. Those that end are replaced."""

    def __init__(self, directory: str, kind: str, chance: random.Random, board: Board, servers: list[int]) -> None:
        self._servers = servers
        #: What each process does: shared with all of them.
        self._states = mmap.mmap(-1, PROCESSES)
        self._enough = ENOUGH | (COUNTED if kind == "semaphore" else FENCED)
        self._directory = directory
        self._kind = kind
        self._chance = chance
        self._board = board
        self._running: dict[int, int] = {}
        #: Those that are stopped, and when they go on (monotonic seconds).
        self._stopped: dict[int, float] = {}

    def work(self, seconds: float) -> None:
        began = time.monotonic()
        while True:
            for number in range(PROCESSES):
                if number not in self._running:
                    self._running[number] = self._forked(number)
            time.sleep(self._chance.uniform(0, FAULT_EVERY_S))
            self._resume(time.monotonic())
            ran_s = time.monotonic() - began
            if (ran_s >= seconds and self._is_enough()) or ran_s >= seconds + EXTRA_S:
                return
            self._happen()

    def end(self) -> None:
        for pid in self._running.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _happen(self) -> None:
        if self._chance.random() < STALLS:
            self._stall(self._chance.choice(self._servers))
            return
        awake = [number for number, pid in self._running.items() if pid not in self._stopped]
        waiting = [number for number in awake if self._states[number] == WAITING]
        if not awake:
            return
        number = self._chance.choice(waiting if waiting and self._chance.random() < 0.5 else awake)
        what = " waiting" if self._states[number] == WAITING else ""
        if self._chance.random() < 0.5:
            os.kill(self._running[number], signal.SIGSTOP)
            self._board.count(f"stopped{what}")
            return
        os.kill(self._running[number], signal.SIGKILL)
        self._gone(number)
        self._board.count("killed")
        if what:
            self._board.count("killed waiting")

    def _stall(self, server: int) -> None:
        """Stop a server, as a slow disk or a migration of its machine does."""
        self._board.count("stalls")
        os.kill(server, signal.SIGSTOP)
        try:
            time.sleep(self._chance.uniform(*STALLED_S))
        finally:
            os.kill(server, signal.SIGCONT)

    def _gone(self, number: int) -> None:
        _, status = os.waitpid(self._running.pop(number), 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            raise RuntimeError(f"a holder ended by itself, with {os.waitstatus_to_exitcode(status)}")

    def _resume(self, now: float) -> None:
        for pid in [pid for pid, until in self._stopped.items() if until <= now]:
            del self._stopped[pid]
            os.kill(pid, signal.SIGCONT)
        for number, pid in list(self._running.items()):
            if pid not in self._stopped and os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT):
                self._stopped[pid] = now + self._chance.uniform(*STOPPED_S)
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                self._gone(number)

    def _is_enough(self) -> bool:
        counts = self._board.counts()
        return all(counts.get(what, 0) >= least for what, least in self._enough.items())

    def _forked(self, number: int) -> int:
        self._states[number], is_async = 0, number % 2 == 1
        pid = os.fork()
        if pid == 0:
            try:
                Smith(self._directory, self._kind, is_async, Board(), self._states, number).work()
            except BaseException:  # noqa: BLE001 - the last words of a process
                traceback.print_exc()
            finally:
                os._exit(1)
        return pid
