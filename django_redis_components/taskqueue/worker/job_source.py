"""Where the threads of a worker get their next job from: the buffer, a fetch of their own, or the bell.

There is no dispatcher. A thread that has finished a task asks for the next one in the same round trip that
settles the first, unless others have already asked for enough. Of the idle threads one, the leader, waits
for the bell and for the next due time, and runs what it fetches then; the others wait for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from django_redis_components.core.client.wakeup_listener import WakeupListener
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from django_redis_components.taskqueue.worker.prefetch_amount import AHEAD_S, Pace
from django_redis_components.taskqueue.worker.prefetch_buffer import Buffer

#: Longest wait for a bell before the queues are looked at anyway, in seconds.
LOOK_AGAIN_S = 4.0
#: Requests of one process that are under way while each brings work for all its threads: one is answered while what
#: another has brought is run. More would only wait for each other, and keep the server from its other clients.
MOST_ASKING = 2


class Supply:
    """Shared by the threads of one process.

    Attributes:
        buffer: what has been fetched and waits for a thread.
        pace: how much a fetch may take.
        waiting: threads that wait for another one.
        leading: held by the thread that waits for the bell.
    """

    def __init__(self, fetcher: Fetcher, bells: WakeupListener, threads: int, free_on_loop: Callable[[], int]) -> None:
        self.pace = Pace()
        self.buffer = Buffer(fetcher, self.pace)
        self.waiting = 0
        self.leading = threading.Lock()
        self._fetcher = fetcher
        self._bells = bells
        self._threads = threads
        self._free_on_loop = free_on_loop
        self._idle = threading.Condition()
        self._stopping = False

    def stop(self) -> None:
        """Give out nothing more. Jobs that have not begun go back."""
        self._stopping = True
        with self._idle:
            self._idle.notify_all()
        self.buffer.give_back()
        self.buffer.wake()

    def next(self, lane: str, *, wait: bool = True) -> Job | None:
        """The next job for a thread, waited for if need be; None if there is none, or after `stop`."""
        job = self.buffer.pop() or self._await() or self._ask(lane)
        while job is None and wait and not self._stopping:
            if self.leading.acquire(blocking=False):
                try:
                    job = self._lead(lane)
                finally:
                    self.leading.release()
                    self._wake(1 + len(self.buffer))
            else:
                job = self.follow()
        return job

    def want(self) -> int:
        """Free slots, and what measured work allows beyond them."""
        if self._stopping:
            return 0
        return 1 + self.waiting + self.pace.ahead(self._free_on_loop())

    def follow(self) -> Job | None:
        """Wait until there is something in the buffer, or the leader's place is free."""
        self._wait(self.leading.locked)
        return self.buffer.pop()

    def _lead(self, lane: str) -> Job | None:
        """Wait for the bell, the next due time or the time to look again; then fetch."""
        due_s = self._fetcher.seconds_to_due()
        wait_s = LOOK_AGAIN_S if due_s is None else max(0.0, min(due_s, LOOK_AGAIN_S))
        until = time.monotonic() + wait_s
        if not self._bells.wait(wait_s) and not self._stopping and time.monotonic() < until:
            time.sleep(AHEAD_S)  # the stop descriptor is readable before `stop` is called: do not spin until then
        return self._fetch(lane)

    def _ask(self, lane: str) -> Job | None:
        """Fetch; if that leaves the buffer empty, one who waits for it asks for itself."""
        try:
            return self._fetch(lane)
        finally:
            if not self.buffer:
                self._wake(1)

    def _await(self) -> Job | None:
        """Wait for what others have asked for, as long as that is enough for all."""
        job = None
        while job is None and self._enough_asked():
            self._wait(self._enough_asked)
            job = self.buffer.pop()
        return job

    def _enough_asked(self) -> bool:
        asking = self._fetcher.asking()
        return asking >= MOST_ASKING and not self._stopping and self.pace.ahead(0) >= self._threads

    def _wait(self, reason: Callable[[], bool]) -> None:
        """Wait to be woken, if there is nothing in the buffer and the reason holds."""
        with self._idle:
            if not self.buffer and not self._stopping and reason():
                self.waiting += 1
                self._idle.wait(LOOK_AGAIN_S)
                self.waiting -= 1

    def _wake(self, threads: int) -> None:
        """Always under the lock: whoever is about to wait has looked at the buffer before it counts as waiting."""
        with self._idle:
            self._idle.notify(threads)

    def _fetch(self, lane: str) -> Job | None:
        """The first job of a fetch; the others are for those who wait."""
        if self._stopping:
            return None
        jobs = self._fetcher.fetch(lane, self.want())
        if len(jobs) > 1:
            self.buffer.put(jobs[1:])
            self._wake(len(jobs) - 1)
        return jobs[0] if jobs else None
