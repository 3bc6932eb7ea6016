"""The next job of a thread: from the buffer, from its own fetch, or after a wakeup.

There is no dispatcher thread. A thread that has finished a task asks for the next job in the round trip that settles
the first, unless other requests are enough. One of the idle threads, the leader, waits for the wakeup key and for the
next due time, and runs what it fetches then; the others wait for the leader.

A fetch may return more jobs than there are free threads: about 5 ms of work. They are buffered, and return to the queue
if no thread takes them soon.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

from redis.exceptions import RedisError

from django_redis_components.core.client.wakeup_listener import WakeupGroup, WakeupListener
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.text import counted
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.outage_log import OutageLog, describe_error
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from django_redis_components.taskqueue.worker.interrupt import Interrupt
from django_redis_components.taskqueue.worker.prefetch_amount import PREFETCH_S, PrefetchAmount
from django_redis_components.taskqueue.worker.sharded_fetcher import ShardedFetcher
from django_redis_components.taskqueue.worker.thread_pool import ThreadPool

#: Seconds after which buffered jobs that no thread takes return to the queue.
MAX_BUFFERED_S = 0.02
#: Seconds of work that the buffer may contain. If tasks get slower, jobs beyond it return to the queue, because another
#: worker may be idle.
MAX_BUFFERED_WORK_S = 0.05
#: Longest wait for a wakeup, in seconds; then the queues are fetched from anyway.
MAX_WAIT_S = 4.0
#: Concurrent requests of one process if each returns work for all its threads: one is answered while the jobs of the
#: other run. More would wait for each other, and keep the server from its other clients.
MAX_REQUESTS = 2


class PrefetchBuffer:
    """Fetched jobs, in order, until a thread takes them. Its flusher thread sends acks that no fetch takes along."""

    def __init__(self, fetcher: Fetcher | ShardedFetcher, amount: PrefetchAmount) -> None:
        self._fetcher = fetcher
        self._amount = amount
        self._jobs: deque[Job] = deque()
        self._has_work = threading.Event()
        #: As the event, which is asked for each job: a call of `is_set` would take longer than all else.
        self._is_awake = False
        fetcher.on_unsent = self.wake
        #: Active while acks cannot be sent.
        self.outage = OutageLog(logger.warning, logger.info)

    def __len__(self) -> int:
        return len(self._jobs)

    def start(self) -> None:
        """Start the flusher thread."""
        threading.Thread(target=self._flush_repeatedly, name="flusher", daemon=True).start()

    def wake(self) -> None:
        """Wake the flusher: an ack may be pending."""
        if not self._is_awake:
            self._is_awake = True
            self._has_work.set()

    def put(self, jobs: Iterable[Job]) -> None:
        """Add jobs."""
        self._jobs.extend(jobs)
        self.wake()

    def pop(self) -> Job | None:
        """Remove and return the next job; the flusher sends the acks that are pending then."""
        try:
            job = self._jobs.popleft()
        except IndexError:
            return None
        if not self._is_awake and (self._jobs or self._fetcher.pending_acks()):
            self.wake()
        return job

    def put_back(self, job: Job) -> None:
        """Put back the job that was removed last."""
        self._jobs.appendleft(job)
        self.wake()

    def return_jobs(self) -> None:
        """Return all jobs to their queue, the last one first, so that the first one is at the head again."""
        with contextlib.suppress(IndexError):
            while True:
                job = self._jobs.pop()
                self._fetcher.return_job(job)

    def send_acks(self) -> None:
        """Send the pending acks; they stay pending if Redis does not reply."""
        try:
            while self._fetcher.pending_acks():
                self._fetcher.fetch("acks", 0)
            self._fetcher.retry_rejected()
            if not self._fetcher.has_unconfirmed_acks():
                self.outage.succeeded()
        # Tested; but Python 3.11 stops tracing a frame that an error reaches through nested generators.
        except (RedisError, RedisComponentsError) as exc:  # pragma: no cover
            outcomes = counted(self._fetcher.pending_acks(), "outcome")
            self.outage.failed(f"{outcomes} cannot be sent: {describe_error(exc)}.")
            time.sleep(0.2)

    def _flush_repeatedly(self) -> None:
        while True:
            try:
                self._flush_when_needed()
            except BaseException:  # without this thread, outcomes would wait for the next fetch
                logger.exception("The outcomes of tasks cannot be sent; trying again.")
                time.sleep(0.2)
                self.wake()

    def _flush_when_needed(self) -> None:
        """Send acks that no fetch takes along within 5 ms, and return jobs that are buffered for too long."""
        head, since = None, 0.0
        self._has_work.wait(self._fetcher.seconds_to_retry())
        self._has_work.clear()
        self._is_awake = False  # before the pending work is looked at: what comes later wakes it again
        if self._fetcher.seconds_to_retry() == 0.0:
            self.send_acks()
        while self._jobs or self._fetcher.pending_acks():
            if self._head() is not head:
                head, since = self._head(), time.monotonic()
            time.sleep(PREFETCH_S)
            if self.is_stuck(head, since):
                self._amount.suspend()
                self.return_jobs()
            elif self._amount.work_s(len(self._jobs)) > MAX_BUFFERED_WORK_S:
                self.return_jobs()
            if self._fetcher.pending_acks():
                self.send_acks()

    def _head(self) -> Job | None:
        try:
            return self._jobs[0]
        except IndexError:
            return None

    def is_stuck(self, job: Job | None, since: float) -> bool:
        """Return whether this job is still the next one. The flusher may run late where threads compute."""
        return job is not None and job is self._head() and time.monotonic() - since > MAX_BUFFERED_S


class JobSource:
    """Where the threads of one process get their jobs.

    Attributes:
        buffer: fetched jobs that no thread has taken.
        amount: how many jobs a fetch may return.
        idle_threads: number of threads that wait for another one.
        leader_lock: held by the thread that waits for the wakeup key.
    """

    def __init__(
        self,
        fetcher: Fetcher | ShardedFetcher,
        wakeups: WakeupListener | WakeupGroup,
        threads: ThreadPool,
        free_permits: Callable[[], int],
        interrupt: Interrupt,
    ) -> None:
        """
        Args:
            threads: that get their jobs here.
            free_permits: of the event loop.
            interrupt: ends the wait for a wakeup.
        """
        self.amount = PrefetchAmount()
        self.buffer = PrefetchBuffer(fetcher, self.amount)
        self.idle_threads = 0
        self.leader_lock = threading.Lock()
        self._fetcher = fetcher
        self._wakeups = wakeups
        self._interrupt = interrupt
        #: What replaces the wakeups, one after the other, and what is called then; the next leader does it.
        self._replacements: deque[tuple[WakeupListener | WakeupGroup, Callable[[], object]]] = deque()
        self._threads = threads
        self._free_permits = free_permits
        self._idle = threading.Condition()
        self._stopping = False

    def stop(self) -> None:
        """Return no more jobs to threads, and buffered jobs to their queue."""
        self._stopping = True
        with self._idle:
            self._idle.notify_all()
        self.buffer.return_jobs()
        self.buffer.wake()

    def wake_surplus(self) -> None:
        """Wake the threads that wait, if some of them must leave."""
        if self._threads.has_surplus:
            with self._idle:
                self._idle.notify_all()
            self._interrupt.set()

    def replace_wakeups(self, wakeups: WakeupListener | WakeupGroup, on_replaced: Callable[[], object]) -> None:
        """Wait for other wakeups from now on. `on_replaced` is called when the former ones are closed."""
        self._replacements.append((wakeups, on_replaced))
        self._interrupt.set()

    def next(self, thread: str, *, wait: bool = True) -> Job | None:
        """Return the next job for a thread, waiting for one if necessary; None without one or after `stop`."""
        job = self.buffer.pop() or self._wait_for_others() or self._fetch_or_wake(thread)
        while job is None and wait and not (self._stopping or self._threads.has_surplus):
            if self.leader_lock.acquire(blocking=False):
                try:
                    job = self._lead(thread)
                    # Perhaps no thread takes the lead, and reads the next wakeup.
                    if self._threads.has_surplus or (job is not None and not self.idle_threads):
                        self._wakeups.abandon()
                finally:
                    self.leader_lock.release()
                    self._wake(1 if self.amount.async_share > 0.5 else 1 + len(self.buffer))
            else:
                job = self.follow()
        if self._stopping:
            self._abandon_wait()
        return job

    def take(self, is_wanted: Callable[[Job], bool]) -> Job | None:
        """Remove and return the next job if it is wanted; otherwise wake threads, which take the buffered ones."""
        job = self.buffer.pop()
        if job is None or is_wanted(job):
            return job
        self.buffer.put_back(job)
        self._wake(len(self.buffer))
        return None

    def split(self, batch: Job) -> Job:
        """Buffer the other tasks of a batch as jobs by themselves, and return the first: here its task is no batch."""
        self.buffer.put(batch.others)
        self._wake(len(batch.others))
        return batch.alone()

    def wake_next(self) -> None:
        """Wake a thread if one is needed: the caller is busy from now on, and jobs are buffered or no thread leads."""
        if self.idle_threads and (self.buffer or not self.leader_lock.locked()):
            self._wake(1)

    def want(self) -> int:
        """Return how many jobs to ask for: the idle threads, and the prefetch amount."""
        if self._stopping:
            return 0
        return 1 + self.idle_threads + self.amount.beyond_free_threads(self._free_permits())

    def follow(self) -> Job | None:
        """Wait until a job is buffered or there is no leader."""
        self._wait(self.leader_lock.locked)
        return self.buffer.pop()

    def _lead(self, thread: str) -> Job | None:
        """Wait for a wakeup, the next due time or `MAX_WAIT_S`; then fetch."""
        if self._replacements:
            self._use_replacements()
            return self._fetch(thread)
        due_s = self._fetcher.seconds_to_due()
        wait_s = MAX_WAIT_S if due_s is None else max(0.0, min(due_s, MAX_WAIT_S))
        until = time.monotonic() + wait_s
        was_woken = self._wakeups.wait(wait_s)
        if self._interrupt.clear():
            return self._fetch(thread) if was_woken else None
        if not was_woken and not self._stopping and time.monotonic() < until:
            time.sleep(PREFETCH_S)  # the stop descriptor becomes readable before `stop` is called: do not spin
        return self._fetch(thread)

    def _use_replacements(self) -> None:
        """Wait for the new wakeups from now on. The caller is the leader."""
        while self._replacements:
            wakeups, on_replaced = self._replacements.popleft()
            self._wakeups.close()
            self._wakeups = wakeups
            on_replaced()

    def _abandon_wait(self) -> None:
        """Leave the next wakeup to another worker, unless a leader still waits: it does so itself."""
        if self.leader_lock.acquire(blocking=False):
            try:
                self._wakeups.abandon()
            finally:
                self.leader_lock.release()

    def _fetch_or_wake(self, thread: str) -> Job | None:
        """Fetch; if the buffer is empty then, wake a waiting thread, which fetches for itself."""
        try:
            return self._fetch(thread)
        finally:
            if not self.buffer:
                self._wake(1)

    def _wait_for_others(self) -> Job | None:
        """Wait for the replies to requests of other threads, while they are enough for all."""
        job = None
        while job is None and self._has_enough_requests():
            if self._fetcher.pending_acks():  # those requests may have been sent before this thread settled its task
                self.buffer.wake()
            self._wait(self._has_enough_requests)
            job = self.buffer.pop()
        return job

    def _has_enough_requests(self) -> bool:
        requests = self._fetcher.pending_requests()
        if requests < MAX_REQUESTS or self._stopping or self._threads.has_surplus:
            return False
        return self.amount.beyond_free_threads(0) >= self._threads.size

    def _wait(self, condition: Callable[[], bool]) -> None:
        """Wait to be woken, if the buffer is empty and the condition is true."""
        with self._idle:
            if not (self.buffer or self._stopping or self._threads.has_surplus) and condition():
                self.idle_threads += 1
                self._idle.wait(MAX_WAIT_S)
                self.idle_threads -= 1

    def _wake(self, threads: int) -> None:
        """Wake threads. The lock ensures that a thread has checked the buffer before it counts as idle."""
        with self._idle:
            self._idle.notify(threads)

    def _fetch(self, thread: str) -> Job | None:
        """Return the first job of a fetch, and buffer the others."""
        if self._stopping:
            return None
        jobs = self._fetcher.fetch(thread, self.want())
        if len(jobs) > 1:
            self.buffer.put(jobs[1:])
            self._wake(1 if self.amount.async_share > 0.5 else len(jobs) - 1)
        return jobs[0] if jobs else None
