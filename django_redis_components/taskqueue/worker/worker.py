"""The threads of a worker process: each fetches jobs, runs them, and settles them.

Module `prefetch` has the rules for where a thread gets its next job. A thread that gets a coroutine passes it to the
event loop if the loop has a free permit. Otherwise the job returns to the head of its queue, where another worker may
have a free permit, and the thread fetches again when a permit is free.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextvars import Context
from functools import partial
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.observability.live_events import RECORDER
from django_redis_components.core.settings import conf
from django_redis_components.core.slot_waits import slot_wait_limit
from django_redis_components.taskqueue import forks, registry
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.outage_log import describe_error
from django_redis_components.taskqueue.pool import Pool
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.states import REQUEUED, SUCCEEDED
from django_redis_components.taskqueue.stats.worker_reports import WorkerRun
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.store.workers import MAX_NAME, MAX_RUNS
from django_redis_components.taskqueue.worker import stack
from django_redis_components.taskqueue.worker.batch_execution import BatchExecution
from django_redis_components.taskqueue.worker.event_loop import EventLoop, Start
from django_redis_components.taskqueue.worker.execution import (
    Execution,
    execute,
    execute_on_loop,
    failure_of,
    is_coroutine,
    is_coroutine_task,
)
from django_redis_components.taskqueue.worker.interrupt import Interrupt
from django_redis_components.taskqueue.worker.interruption import CoroutineRun, Run, ThreadRun, TimeLimitTimer
from django_redis_components.taskqueue.worker.ipc import PrefetchedLeases
from django_redis_components.taskqueue.worker.options import WorkerOptions
from django_redis_components.taskqueue.worker.outcome_calls import OutcomeCalls
from django_redis_components.taskqueue.worker.prefetch import MAX_BUFFERED_S, JobSource
from django_redis_components.taskqueue.worker.prefetch_amount import PREFETCH_S
from django_redis_components.taskqueue.worker.run_events import record_outcome, record_start
from django_redis_components.taskqueue.worker.running_batches import RunningBatches, is_batch
from django_redis_components.taskqueue.worker.sharded_fetcher import open_fetcher
from django_redis_components.taskqueue.worker.thread_pool import ThreadPool
from django_redis_components.taskqueue.worker.wakeups import notify_others, open_wakeups

#: Longest time that an exiting process waits until its last acks are accepted, in seconds.
MAX_RETURN_S = 2.0
#: Longest time that a thread waits for a free permit of the event loop before it looks for other jobs, in seconds.
MAX_PERMIT_WAIT_S = 1.0
#: Age of a process, in seconds, after which it is replaced if its event loop cannot start.
MIN_AGE_S = 5.0


class Worker:
    """Runs tasks of some queues on a number of threads.

    Attributes:
        fetcher: its client of the queue.
        threads: those that run its tasks, except coroutines.
        job_source: where its threads get jobs.
        timer: the time limits of its runs.
        outcome_calls: calls receivers of stored outcomes.
        finished: number of tasks that have run.
        restart_reason: why its process must be restarted; empty until then.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        worker_id: str,
        options: WorkerOptions,
        stop_fd: int,
        prefetched: PrefetchedLeases | None = None,
    ) -> None:
        """
        Args:
            shards: whose tasks it runs, the home shard first.
            stop_fd: a file descriptor that becomes readable when the worker must stop.
            prefetched: where leases are noted whose task has not started.
        """
        self._options, self._prefetched = options, prefetched
        self._queues, self._interrupt = options.queues, Interrupt(stop_fd)
        self.fetcher = open_fetcher(shards, worker_id, options.queues, options.weights, prefetched)
        wakeups = open_wakeups(shards, self.fetcher, options.queues, self._interrupt.fd)
        self.threads = ThreadPool(options.threads, self._run_thread)
        self._stopping = False
        #: By task id and token: after a lease has expired, the same task may be fetched while its first run continues.
        self._running: dict[tuple[str, str], Run] = {}
        #: The tasks of the runs that are batches. `_running` has each batch once.
        self._batches = RunningBatches(self.fetcher, shards[0].using)
        self._loop = EventLoop(options.async_concurrency)
        self.job_source = JobSource(self.fetcher, wakeups, self.threads, self._loop.free_permits, self._interrupt)
        self._loop.take = self._take_coroutine
        self._loop.on_ended = self.job_source.amount.record_ended_coroutines
        self.timer = TimeLimitTimer()
        self.outcome_calls = OutcomeCalls()
        self.fetcher.on_stored = self.outcome_calls.add
        self._freed_at = 0.0
        self._pid = forks.process_id()
        self._shards = shards
        self._using = shards[0].using
        self._max_tasks = float("inf")
        self._on_limit: Callable[[], None] = self.job_source.buffer.wake
        self._outage = self.job_source.buffer.outage
        self._restarts_interrupted = conf.settings().taskqueue.restart_interrupted
        self._started_at = time.monotonic()
        self.finished = 0
        self.restart_reason = ""

    def start(self) -> None:
        """Start the threads."""
        self.threads.start()
        self.job_source.buffer.start()

    def change_pool(self, pool: Pool) -> None:
        """Change the numbers of threads and coroutines, and the queues. Running tasks continue.

        If the system has too few threads, `threads.size` is what there are. A worker that stops changes nothing.
        """
        if self._stopping:
            return
        self.fetcher.set_queues(pool.queues, pool.weights)
        if pool.queues != self._queues:
            left = [queue for queue in self._queues if queue not in pool.queues]
            self._queues = pool.queues
            wakeups = open_wakeups(self._shards, self.fetcher, pool.queues, self._interrupt.fd)
            self.job_source.replace_wakeups(wakeups, partial(notify_others, self._shards, left))
        self._loop.set_permits(pool.coroutines)
        self.threads.resize(pool.threads)
        self.job_source.wake_surplus()

    def set_max_tasks(self, max_tasks: float, on_limit: Callable[[], None]) -> None:
        """Stop after this number of tasks. `on_limit` is called then, to end the waits of idle threads."""
        self._max_tasks, self._on_limit = max_tasks, on_limit

    def no_reply_s(self) -> float | None:
        """Return for how many seconds Redis has not replied although a thread is free; None before the first reply."""
        if self.fetcher.replied_at is None:
            return None
        in_threads = sum(isinstance(run, ThreadRun) for run in list(self._running.values()))
        if self._stopping or in_threads >= self.threads.size:
            return 0.0
        return time.monotonic() - max(self.fetcher.replied_at, self._freed_at)

    def busy(self) -> int:
        """Return the number of running tasks."""
        return len(self._running)

    def busy_coroutines(self) -> int:
        """Return how many of these run on the event loop."""
        return sum(isinstance(run, CoroutineRun) for run in list(self._running.values()))

    def is_alive(self) -> bool:
        """Return whether any thread is alive or any task runs.

        The order matters: a thread may pass a coroutine to the event loop and end.
        """
        return self.threads.alive() > 0 or bool(self._running)

    def is_damaged(self) -> bool:
        """Return whether a thread, or that of the event loop, has died: its runs cannot end."""
        return self._loop.has_died() or self.threads.lost() > 0

    def settle_lost_runs(self) -> None:
        """Fail the runs whose thread has died, so that their leases are not renewed, and restart the process."""
        alive, numbers = self.threads.alive_idents(), self.threads.numbers()
        for run in list(self._running.values()):
            if self._loop.has_died() if isinstance(run, CoroutineRun) else run.has_lost_thread(alive):
                exc = RuntimeError("The thread of this run has died.")
                logger.error("Task %s[%s] fails: the thread of its run has died.", run.job.name, run.job.id)
                self._settle_failed(run.job, exc, numbers.get(run.thread))
        self.request_restart("one of its threads has died")

    def request_restart(self, reason: str) -> None:
        """Have the process restarted: it fetches nothing more, and exits after the running tasks."""
        if not self.restart_reason:
            self.restart_reason = reason
        self._on_limit()

    def stop(self) -> None:
        """Fetch nothing more, and return jobs that have not started to their queue.

        Running tasks continue; those that iterate end after the current item.
        """
        self._stopping = True
        for run in list(self._running.values()):
            run.stop_asked = True
        self._loop.close()
        self.job_source.stop()

    def running(self) -> list[str]:
        """Return the ids of the running tasks."""
        return [task_id for task_id, _ in self._running_jobs()]

    def longest_runs(self) -> list[WorkerRun]:
        """Return the tasks that have run longest, `MAX_RUNS` at most."""
        now = time.perf_counter()
        jobs = list(self._running_jobs().values())[:MAX_RUNS]
        return [
            WorkerRun(job.id, job.name[:MAX_NAME], job.queue, round(now - job.began, 3) if job.began else 0.0)
            for job in jobs
        ]

    def is_running(self, task_id: str, token: str) -> bool:
        """Return whether the task runs here under this lease."""
        return (task_id, token) in self._running or (task_id, token) in self._batches

    def cancel(self, task_id: str, token: str) -> None:
        """Interrupt a run. No effect on a job that has not started: the supervisor sends the command again."""
        if self._batches.cancel(task_id, token):
            self.job_source.buffer.wake()
            return
        run = self._running.get((task_id, token))
        if run is not None and not run.job.others:
            run.cancel()

    def send_stack(self, task_id: str, op: str) -> None:
        """Send the stack of a task to the operator who requested it by this operation."""
        run = next((run for (running, _), run in list(self._running.items()) if running == task_id), None)
        run = run or self._batches.run_of(task_id)
        for shard in self._shards if run is None else [run.job.shard or self._shards[0]]:
            stack.send(shard, run, op)

    def return_jobs(self, keep: Collection[str] = ()) -> None:
        """Send the pending acks, and return the running tasks to their queue without using an attempt.

        The process must exit afterwards. Other threads may have acks or a request for jobs under way: wait until the
        process has no lease.

        Args:
            keep: ids of tasks whose outcome the supervisor sends, or which it returns.
        """
        keep = self._batches.with_neighbors(keep)  # of a batch that reaches its hard limit it may have named some only
        deadline = time.monotonic() + MAX_RETURN_S
        returned: set[tuple[str, str]] = set()
        while True:
            self.job_source.buffer.return_jobs()
            running = {lease: job for lease, job in self._running_jobs().items() if lease not in returned}
            returned.update(running)
            for job in [job for job in running.values() if job.id not in keep]:
                self.fetcher.settle(Ack(job.id, job.token, REQUEUED))
            with slot_wait_limit(MAX_RETURN_S):
                self.job_source.buffer.send_acks()
            done = not self.fetcher.pending_requests() and self.fetcher.leases.keys() <= set(keep)
            if done or time.monotonic() > deadline:
                return
            time.sleep(PREFETCH_S)

    def _run_thread(self, number: int) -> None:
        self._run_jobs(number)
        self.job_source.buffer.send_acks()

    def _run_jobs(self, thread: int) -> None:
        """Run jobs until the thread leaves, the worker is stopped, or has finished in burst mode."""
        burst, name = self._options.burst, str(thread)
        while not self._stopping and not (self.threads.has_surplus and self._must_leave(thread)):
            had_leases = burst and self.fetcher.has_leases()
            try:
                job = self.job_source.buffer.pop()
                if job is None:
                    with slot_wait_limit(0):  # `_back_off` waits instead, and observes a stop meanwhile
                        job = self.job_source.next(name, wait=not burst)
            except (RedisError, RedisComponentsError) as exc:
                self._outage.failed(f"{describe_error(exc)}; retrying.")
                self._back_off()
                continue
            except BaseException:  # whatever it is, the thread must go on
                logger.exception("A thread of the worker cannot fetch; trying again.")
                self._back_off()
                continue
            if self._outage.is_active and not self.fetcher.has_unconfirmed_acks():
                self._outage.succeeded()
            if job is not None:
                try:
                    self._run_or_return(job, thread)
                except BaseException as exc:  # noqa: BLE001 - logged
                    self._fail(job, exc, thread)
            elif burst:
                # A lease that existed before the fetch may have returned to its queue since.
                if not had_leases and self._has_finished():
                    break
                time.sleep(random.uniform(0.5, 1.5) * MAX_BUFFERED_S)  # other threads ask at other times

    def _must_leave(self, thread: int) -> bool:
        """Return whether this thread must end now, because there are too many. Another one takes what it would do."""
        if self.fetcher.has_unanswered(str(thread)) or not self.threads.leave(thread):
            return False
        self.job_source.wake_surplus()
        self.job_source.wake_next()
        return True

    def _has_finished(self) -> bool:
        """Return whether no task is leased or running here, or due. The order matters: a reply adds leases first."""
        is_fetching = self.fetcher.pending_requests() > 0
        return not (is_fetching or self.fetcher.has_leases() or self._running or self.fetcher.has_more())

    def _back_off(self) -> None:
        deadline = time.monotonic() + random.uniform(0.1, 1.0)
        while not self._stopping and time.monotonic() < deadline:
            time.sleep(0.05)

    def _run_or_return(self, job: Job, thread: int) -> None:
        """Run the job, or return it to its queue if the worker was stopped while it was fetched."""
        task = registry.find(job.name)  # once: a short task notices each look-up
        if self._stopping:
            self.fetcher.return_job(job)
        elif job.others and not is_batch(job):
            self._run_or_return(self.job_source.split(job), thread)
        elif is_coroutine_task(task):
            self._run_on_loop(job)
        else:
            if self.job_source.amount.async_share > 0.5:  # then one thread was woken for all
                self.job_source.wake_next()
            if job.others:
                self._run_batch_in_thread(job, thread)
            else:
                self._run_in_thread(job, task, thread)
        if self.outcome_calls.queued:
            self.job_source.buffer.wake()  # the ack of this job must not wait for a receiver
            self.outcome_calls.make_next()

    def _run_in_thread(self, job: Job, task: Any, thread: int) -> None:
        run = ThreadRun(job, self.timer, threading.get_ident())
        self._begin(run, thread)
        ack = Context().run(execute, job, run, task)
        # Not the time in which its outcome was logged: threads may wait for each other there.
        self.job_source.amount.record_run(job.ran_us / 1e6, min(len(self._running), self.threads.size))
        self._finish(ack, thread)
        if run.interrupted and self._restarts_interrupted:
            self.request_restart(f"a task was interrupted ({job.name})")

    def _run_batch_in_thread(self, job: Job, thread: int) -> None:
        execution, run = BatchExecution(job, registry.find(job.name)), ThreadRun(job, self.timer, threading.get_ident())
        self._batches.add(run, execution)
        self._begin(run, thread)
        started_at = time.perf_counter()
        acks = Context().run(execution.run, run)
        self.job_source.amount.record_run(time.perf_counter() - started_at, min(len(self._running), self.threads.size))
        self._batches.settle(run, acks)
        self._end_batch(run, thread)
        if run.interrupted and self._restarts_interrupted:
            self.request_restart(f"a task was interrupted ({job.name})")

    def _running_jobs(self) -> dict[tuple[str, str], Job]:
        """Return the running tasks, by id and token."""
        alone = {lease: run.job for lease, run in list(self._running.items()) if not run.job.others}
        return alone | self._batches.jobs()

    def _begin(self, run: Run, thread: int | None = None) -> None:
        """Note that a run starts, see `_finish`."""
        self._running[run.job.id, run.job.token] = run
        if self._stopping:  # since the job was taken
            run.stop_asked = True
        if self._prefetched is not None:
            self._prefetched.start_run(run.job.id, run.job.token, thread)
        if RECORDER.is_open:
            record_start(self._using, run.job)
        else:
            RECORDER.leave_out()

    def _finish(self, ack: Ack, thread: int | None = None) -> None:
        """Settle a run.

        Args:
            thread: number of the thread that has run it; None for a coroutine.
        """
        forks.exit_in_child(self._pid)  # a receiver of a signal may have forked; task functions are checked before
        run = self._running.get((ack.id, ack.token))
        if run is None:
            self.fetcher.settle(ack)
        else:
            self.fetcher.settle_run(run.job, ack)
        if run is None or self._running.pop((ack.id, ack.token), None) is None:
            return
        if self._prefetched is not None:
            self._prefetched.end_run(thread)
        self.finished += 1
        self._freed_at = time.monotonic()
        if RECORDER.is_open or ack.outcome != SUCCEEDED:
            record_outcome(self._using, run.job, ack)
        else:
            RECORDER.leave_out()
        if self.finished >= self._max_tasks:
            self.stop()
            self._on_limit()

    def _end_batch(self, run: Run, thread: int | None = None) -> None:
        """Note that a batch has ended, whose tasks were settled."""
        forks.exit_in_child(self._pid)
        if self._running.pop((run.job.id, run.job.token), None) is None:
            return
        if self._prefetched is not None:
            self._prefetched.end_run(thread)
        self.finished += 1 + len(run.job.others)
        self._freed_at = time.monotonic()
        if self.finished >= self._max_tasks:
            self.stop()
            self._on_limit()

    def _fail(self, job: Job, exc: BaseException, thread: int | None = None) -> None:
        """Log and settle a run with an error that its function did not raise. See `_finish`."""
        logger.log_exception(exc, "Task %s[%s] ended by an error outside of its function.", job.name, job.id)
        self._settle_failed(job, exc, thread)

    def _settle_failed(self, job: Job, exc: BaseException, thread: int | None = None) -> None:
        """Settle a run, or each task of a batch, with an error that its function did not raise."""
        run = self._running.get((job.id, job.token)) if job.others else None
        if run is not None:
            self._batches.fail(run, exc)
            self._end_batch(run, thread)
            return
        for each in (job, *job.others):
            self._finish(failure_of(each, exc), thread)

    def _run_on_loop(self, job: Job) -> None:
        """Run the job on the event loop, or return it to its queue if no permit becomes free soon."""
        self.job_source.amount.record_coroutine()
        if not self._start_loop():
            self._return(job)
            self._back_off()
            return
        if not self._loop.acquire_permit(MAX_BUFFERED_S):
            self._return(job)
            self._loop.wait_for_permit(MAX_PERMIT_WAIT_S)
            return
        try:
            start = self._start_coroutine(job)
        except BaseException:
            self._loop.release_permit()
            raise
        self._loop.run(*start)
        self._loop.wait_until_idle(PREFETCH_S)  # it takes what is buffered itself

    def _start_loop(self) -> bool:
        try:
            self._loop.start()
        except (OSError, RuntimeError) as exc:
            logger.error("The event loop cannot start (%s).", exc)
            # A new process that cannot start it either would be restarted for ever.
            if self.finished or time.monotonic() - self._started_at > MIN_AGE_S:
                self.request_restart("its event loop cannot start")
            return False
        return True

    def _start_coroutine(self, job: Job) -> Start:
        if job.others:
            if is_batch(job):
                return self._start_batch_on_loop(job)
            job = self.job_source.split(job)
        run = CoroutineRun(job, self.timer)
        self._begin(run)
        execution = Execution(job, registry.find(job.name))
        return partial(execute_on_loop, execution, run), partial(self._end_on_loop, execution)

    def _start_batch_on_loop(self, job: Job) -> Start:
        execution, run = BatchExecution(job, registry.find(job.name)), CoroutineRun(job, self.timer)
        self._batches.add(run, execution)
        self._begin(run)
        return partial(execution.run_on_loop, run), partial(self._end_batch_on_loop, run)

    def _take_coroutine(self) -> Start | None:
        """Start the next buffered job, if it is a coroutine; a thread runs others."""
        if self.outcome_calls.queued:  # each thread makes one before its next job
            self.job_source.wake_next()
            return None
        job = None if self._stopping else self.job_source.take(is_coroutine)
        if job is None:
            return None
        try:
            self.job_source.amount.record_coroutine()
            return self._start_coroutine(job)
        except BaseException as exc:  # noqa: BLE001 - logged
            self._fail(job, exc)
            self.job_source.buffer.wake()  # no thread sends the ack soon
            return None

    def _return(self, job: Job) -> None:
        self.fetcher.return_job(job)
        self.job_source.buffer.wake()

    def _end_on_loop(self, execution: Execution, task: asyncio.Future[Ack]) -> None:
        """Settle a coroutine that has ended, also one that was cancelled before its first step."""
        try:
            exc = asyncio.CancelledError() if task.cancelled() else task.exception()
            self._finish(task.result() if exc is None else execution.finish(execution.failure(exc), exc))
        except BaseException:
            logger.exception("The outcome of a coroutine cannot be settled.")
        finally:
            self.job_source.buffer.wake()

    def _end_batch_on_loop(self, run: CoroutineRun, task: asyncio.Future[list[Ack]]) -> None:
        """See `_end_on_loop`."""
        try:
            exc = asyncio.CancelledError() if task.cancelled() else task.exception()
            if exc is None:
                self._batches.settle(run, task.result())
                self._end_batch(run)
            else:
                self._fail(run.job, exc)
        except BaseException:
            logger.exception("The outcomes of a batch cannot be settled.")
        finally:
            self.job_source.buffer.wake()
