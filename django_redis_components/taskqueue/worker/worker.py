"""A worker process: threads that fetch for themselves, run tasks, and settle them.

Where a thread gets its next job from is told in `supply`. What a fetch returns beyond one job stands in
a buffer that all threads take from; it is about 5 ms of work, and goes back to the queue if nobody takes it.

A thread that finds a coroutine hands it to the event loop and goes on, as long as the loop has a
free slot. If it has none, the job goes back to the front of its queue, where another worker may
have room, and the thread looks again when a slot is free.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial

from redis.exceptions import RedisError

from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.client.slot_migration import slot_wait_limit
from django_redis_components.core.client.wakeup_listener import WakeupListener
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.outage_log import describe_error
from django_redis_components.taskqueue import forks
from django_redis_components.taskqueue.store.fields import base_key
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.worker.event_loop import EventLoop
from django_redis_components.taskqueue.worker.execution import (
    Execution,
    execute,
    execute_on_loop,
    is_coroutine,
    prepare,
)
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from django_redis_components.taskqueue.worker.interruption import CoroutineRun, Run, ThreadRun
from django_redis_components.taskqueue.worker.job_source import Supply
from django_redis_components.taskqueue.worker.prefetch_amount import AHEAD_S
from django_redis_components.taskqueue.worker.prefetch_buffer import HOARD_S
from django_redis_components.taskqueue.worker.prefetched import Unbegun
from django_redis_components.taskqueue.worker.time_limits import Watch

logger = logging.getLogger("django_redis_components.taskqueue")

#: Longest time that a process which ends waits for its last outcomes to arrive, in seconds.
GIVE_BACK_S = 2.0
#: Longest time, in seconds, that a thread which found the event loop full waits for a slot before it looks for
#: other work.
FULL_S = 1.0
#: Coroutines that run at the same time in one process, unless it is told otherwise.
ASYNC_CONCURRENCY = 100


class Worker:
    """Runs tasks of some queues, in strict order of the queues or by weight, on a number of threads.

    Attributes:
        fetcher: its side of the queue.
        supply: where its threads get jobs from.
        watch: knows the runs that have time limits.
        burst: stop when nothing is left to fetch.
    """

    def __init__(
        self,
        client: SyncClient,
        worker_id: str,
        queues: Sequence[str],
        threads: int,
        stop_fd: int,
        *,
        async_concurrency: int = ASYNC_CONCURRENCY,
        burst: bool = False,
        weights: Sequence[int] = (),
        unbegun: Unbegun | None = None,
    ) -> None:
        """Make its side of the queue; `start` begins.

        Args:
            stop_fd: a file descriptor that becomes readable when the worker shall stop.
            weights: one for each queue, or none for strict order.
            unbegun: where it notes what it has fetched and not begun.
        """
        self.fetcher = Fetcher(client, worker_id, queues, weights=weights, unbegun=unbegun)
        self.burst = burst
        bells = WakeupListener(client, [f"{base_key()}:bell:q:{queue}" for queue in queues], wake_fd=stop_fd)
        self._names = [str(number) for number in range(threads)]
        self._threads: list[threading.Thread] = []
        self._stopping = False
        #: By task and lease: who has lost a lease may get the same task again before the first run of it has ended.
        self._running: dict[tuple[str, str], Run] = {}
        self._loop = EventLoop(async_concurrency)
        self.supply = Supply(self.fetcher, bells, threads, self._loop.free)
        self.watch = Watch()
        self._freed_at = 0.0
        self._pid = forks.process_id()
        self._max_tasks = float("inf")
        self._on_limit: Callable[[], None] = self.supply.buffer.wake
        self._outage = self.supply.buffer.outage
        self.finished = 0

    def start(self) -> None:
        """Start the threads."""
        self._threads = [
            threading.Thread(target=self._live, args=(name,), name=f"task-{name}", daemon=True) for name in self._names
        ]
        for thread in self._threads:
            thread.start()
        self.supply.buffer.start()

    def limit(self, max_tasks: float, on_limit: Callable[[], None]) -> None:
        """Stop by itself after so many tasks; `on_limit` is called then, and ends the waits of idle threads."""
        self._max_tasks, self._on_limit = max_tasks, on_limit

    def silent_s(self) -> float | None:
        """Seconds for which it should have heard from Redis and did not; None before the first time."""
        if self.fetcher.heard_at is None:
            return None
        in_threads = sum(isinstance(run, ThreadRun) for run in list(self._running.values()))
        if self._stopping or in_threads >= len(self._names):
            return 0.0
        return time.monotonic() - max(self.fetcher.heard_at, self._freed_at)

    def busy(self) -> int:
        """Tasks that run now."""
        return len(self._running)

    def alive(self) -> bool:
        """Whether any task thread, or any task, goes on."""
        return bool(self._running) or any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """Fetch nothing more; running tasks go on. Jobs that have not begun go back at once."""
        self._stopping = True
        self._loop.wake()
        self.supply.stop()

    def running(self) -> list[str]:
        """Ids of the tasks that run now."""
        return [task_id for task_id, _ in list(self._running)]

    def runs(self, task_id: str, token: str) -> bool:
        """Whether the task runs here, under this lease."""
        return (task_id, token) in self._running

    def cancel(self, task_id: str, token: str) -> None:
        """Interrupt a run, unless it has ended. A job that has not begun is none: whoever asks, asks again."""
        run = self._running.get((task_id, token))
        if run is not None:
            run.cancel()

    def give_back(self, but: Collection[str] = ()) -> None:
        """Send what waits, and hand back what still runs; it uses no attempt. The process must end now.

        Other threads may have outcomes, or a request for jobs, on their way: they are waited for until no
        lease is held.

        Args:
            but: ids of tasks whose outcome is somebody else's to tell.
        """
        deadline = time.monotonic() + GIVE_BACK_S
        handed_back: set[tuple[str, str]] = set()
        while True:
            self.supply.buffer.give_back()
            running = {lease: run.job for lease, run in list(self._running.items()) if lease not in handed_back}
            handed_back.update(running)
            for job in [job for job in running.values() if job.id not in but]:
                self.fetcher.settle(Ack(job.id, job.token, "back"))
            with slot_wait_limit(GIVE_BACK_S):
                self.supply.buffer.send_acks()
            done = not self.fetcher.asking() and self.fetcher.held.keys() <= set(but)
            if done or time.monotonic() > deadline:
                return
            time.sleep(AHEAD_S)

    def _live(self, lane: str) -> None:
        while not self._stopping:
            try:
                with slot_wait_limit(0):  # `_rest` waits, and hears of a stop meanwhile
                    job = self.supply.next(lane, wait=not self.burst)
            except (RedisError, RedisComponentsError) as exc:
                self._rest(exc)
                continue
            if self._outage.is_active and not self.fetcher.undelivered():
                self._outage.succeeded()
            if job is not None:
                self._run_or_return(job)
            elif self.burst:
                if not self._running and not self.fetcher.has_more():
                    break
                time.sleep(HOARD_S)
        self.supply.buffer.send_acks()

    def _rest(self, exc: Exception) -> None:
        self._outage.failed(f"{describe_error(exc)}; trying again.")
        deadline = time.monotonic() + random.uniform(0.1, 1.0)
        while not self._stopping and time.monotonic() < deadline:
            time.sleep(0.05)

    def _run_or_return(self, job: Job) -> None:
        """Run it, unless the worker was told to stop while it was on its way."""
        if self._stopping:
            self.fetcher.settle(Ack(job.id, job.token, "back"))
        elif is_coroutine(job):
            self._hand_over(job)
        else:
            self._run(job)

    def _run(self, job: Job) -> None:
        self._running[job.id, job.token] = run = ThreadRun(job, self.watch)
        self.fetcher.begin(job)
        began = time.perf_counter()
        ack = execute(job, run)
        self.supply.pace.ran(time.perf_counter() - began, min(len(self._running), len(self._names)))
        self._ran(ack)

    def _ran(self, ack: Ack) -> None:
        forks.exit_in_child(self._pid)  # a receiver of signals, say, has forked; no task's function has
        del self._running[ack.id, ack.token]
        self.fetcher.end()
        self.finished += 1
        self._freed_at = time.monotonic()
        self.fetcher.settle(ack)
        if self.finished >= self._max_tasks:
            self.stop()
            self._on_limit()

    def _hand_over(self, job: Job) -> None:
        """Have the event loop run it, if a slot comes free before it would stand here for too long."""
        self.supply.pace.handed_over()
        if not self._loop.take(HOARD_S):
            self.fetcher.settle(Ack(job.id, job.token, "back"))
            self.supply.buffer.wake()
            self._loop.wait(FULL_S)
            return
        self.fetcher.begin(job)
        run = CoroutineRun(job, self.watch)
        self._running[job.id, job.token] = run
        prepared = prepare(job)
        if isinstance(prepared, Ack):
            self._ran(prepared)
            self._loop.give()
        else:
            self._loop.start(partial(self._run_on_loop, prepared, run))

    async def _run_on_loop(self, execution: Execution, run: CoroutineRun) -> None:
        self._ran(await execute_on_loop(execution, run))
        self._loop.give()
        self.supply.buffer.wake()
