"""Sixteen processes acquire locks while they are killed, or stopped for longer than a lease, one after the other.

Half of the faults hit waiting processes. Sometimes a server is stopped, also for longer than a lease.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import time
import traceback

from django_redis_components.core.leasing import wait_queue
from tests.locks.chaos.kinds import remove_guard
from tests.locks.chaos.shared_state import SharedState
from tests.locks.chaos.workers import LEASE_S, WAITING, Worker

PROCESSES = 16
#: Seconds between two faults, at most.
FAULT_EVERY_S = 0.4
#: Seconds for which a process is stopped.
STOPPED_S = (1.2 * LEASE_S, 2.5 * LEASE_S)
#: Seconds for which a server is stopped, and how often it is.
STALLED_S = (0.2 * LEASE_S, 1.3 * LEASE_S)
STALLS = 0.15
#: Events that must have occurred before a run may end, and how often.
ENOUGH = {"killed": 3, "stopped inside": 2, "cancelled": 5, "extended": 5, "killed waiting": 1, "stopped waiting": 1}
ENOUGH |= {"stalls": 1}
#: The same of kinds whose grants have fencing tokens, and of the others.
FENCED, COUNTED = {"grants": 50, "stale writes": 1}, {"readers": 50}
#: Milliseconds of a hand-off: a quarter of the usual ones, as half of those who wait here are dead or stopped.
HANDOFF_MS = 500
#: Seconds by which a run may be extended for that: a busy machine is slow.
EXTRA_S = 40


def run_with_faults(
    kind: str, seconds: float, seed: int, directory: str, without: str, servers: list[int]
) -> dict[str, int]:
    """Run for `seconds`, and until each event of `ENOUGH` was seen. Return the counters."""
    state = SharedState()
    wait_queue.HANDOFF_MS = HANDOFF_MS
    remove_guard(without)
    injector = FaultInjector(directory, kind, random.Random(seed), state, servers)
    try:
        injector.work(seconds)
    finally:
        injector.end()
    return state.counts()


class FaultInjector:
    """Runs the processes and injects the faults. Replaces processes that exit."""

    def __init__(self, directory: str, kind: str, rng: random.Random, state: SharedState, servers: list[int]) -> None:
        self._servers = servers
        #: The state of each process, in shared memory.
        self._states = mmap.mmap(-1, PROCESSES)
        self._enough = ENOUGH | (COUNTED if kind == "semaphore" else FENCED)
        self._directory = directory
        self._kind = kind
        self._rng = rng
        self._state = state
        self._running: dict[int, int] = {}
        #: Stopped processes, and when they are resumed (monotonic seconds).
        self._stopped: dict[int, float] = {}

    def work(self, seconds: float) -> None:
        started_at = time.monotonic()
        while True:
            for number in range(PROCESSES):
                if number not in self._running:
                    self._running[number] = self._forked(number)
            time.sleep(self._rng.uniform(0, FAULT_EVERY_S))
            self._resume(time.monotonic())
            ran_s = time.monotonic() - started_at
            if (ran_s >= seconds and self._is_enough()) or ran_s >= seconds + EXTRA_S:
                return
            self._inject_fault()

    def end(self) -> None:
        for pid in self._running.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _inject_fault(self) -> None:
        if self._rng.random() < STALLS:
            self._stall(self._rng.choice(self._servers))
            return
        awake = [number for number, pid in self._running.items() if pid not in self._stopped]
        waiting = [number for number in awake if self._states[number] == WAITING]
        if not awake:
            return
        number = self._rng.choice(waiting if waiting and self._rng.random() < 0.5 else awake)
        suffix = " waiting" if self._states[number] == WAITING else ""
        if self._rng.random() < 0.5:
            os.kill(self._running[number], signal.SIGSTOP)
            self._state.count(f"stopped{suffix}")
            return
        os.kill(self._running[number], signal.SIGKILL)
        self._reap(number)
        self._state.count("killed")
        if suffix:
            self._state.count("killed waiting")

    def _stall(self, server: int) -> None:
        """Stop a server, as a slow disk or a migration of its host does."""
        self._state.count("stalls")
        os.kill(server, signal.SIGSTOP)
        try:
            time.sleep(self._rng.uniform(*STALLED_S))
        finally:
            os.kill(server, signal.SIGCONT)

    def _reap(self, number: int) -> None:
        _, status = os.waitpid(self._running.pop(number), 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            raise RuntimeError(f"a worker exited with {os.waitstatus_to_exitcode(status)}")

    def _resume(self, now: float) -> None:
        for pid in [pid for pid, until in self._stopped.items() if until <= now]:
            del self._stopped[pid]
            os.kill(pid, signal.SIGCONT)
        for number, pid in list(self._running.items()):
            if pid not in self._stopped and os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT):
                self._stopped[pid] = now + self._rng.uniform(*STOPPED_S)
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                self._reap(number)

    def _is_enough(self) -> bool:
        counts = self._state.counts()
        return all(counts.get(what, 0) >= least for what, least in self._enough.items())

    def _forked(self, number: int) -> int:
        self._states[number], is_async = 0, number % 2 == 1
        pid = os.fork()
        if pid == 0:
            try:
                Worker(self._directory, self._kind, is_async, SharedState(), self._states, number).work()
            except BaseException:  # noqa: BLE001 - printed before the process exits
                traceback.print_exc()
            finally:
                os._exit(1)
        return pid
