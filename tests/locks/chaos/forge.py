"""Sixteen processes that take locks, while one after the other is killed or stopped for longer than a lease."""

from __future__ import annotations

import os
import random
import signal
import time
import traceback

from django_redis_components.core import turns
from tests.locks.chaos.board import Board
from tests.locks.chaos.holders import LEASE_S, Smith
from tests.locks.chaos.kinds import take_out

PROCESSES = 16
#: Seconds between two faults, at most.
FAULT_EVERY_S = 0.8
#: Seconds for which a process is stopped.
STOPPED_S = (1.2 * LEASE_S, 2.5 * LEASE_S)
#: What a run must have seen before it may end, and how often.
ENOUGH = {"grants": 100, "killed": 3, "stopped inside": 2, "cancelled": 5, "extended": 5, "stale writes": 1}
#: Milliseconds of a hand-off: a quarter of the usual ones, as half of those who wait here are dead or stopped.
HANDOFF_MS = 500
#: Seconds by which a run may be longer to see it: a busy machine is slow.
EXTRA_S = 40


def forge(kind: str, seconds: float, seed: int, directory: str, without: str) -> dict[str, int]:
    """Let them work for so long, or until there is enough to judge by; return what happened how often."""
    board = Board()
    turns.HANDOFF_MS, turns.LIVENESS_MS = HANDOFF_MS, 3 * HANDOFF_MS
    take_out(without)
    crew = Crew(directory, kind, random.Random(seed), board)
    try:
        crew.work(seconds)
    finally:
        crew.end()
    return board.counts()


class Crew:
    """The processes of a run. Those that end are replaced."""

    def __init__(self, directory: str, kind: str, chance: random.Random, board: Board) -> None:
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
                    self._running[number] = self._forked(is_async=number % 2 == 1)
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
        awake = [number for number, pid in self._running.items() if pid not in self._stopped]
        if not awake:
            return
        number = self._chance.choice(awake)
        if self._chance.random() < 0.5:
            os.kill(self._running[number], signal.SIGSTOP)
            self._board.count("stopped")
            return
        os.kill(self._running[number], signal.SIGKILL)
        self._gone(number)
        self._board.count("killed")

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
        return all(counts.get(what, 0) >= least for what, least in ENOUGH.items())

    def _forked(self, is_async: bool) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                Smith(self._directory, self._kind, is_async, Board()).work()
            except BaseException:  # noqa: BLE001 - the last words of a process
                traceback.print_exc()
            finally:
                os._exit(1)
        return pid
