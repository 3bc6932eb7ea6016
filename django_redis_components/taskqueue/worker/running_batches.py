"""The batches that run in a worker process, by their tasks: each is settled and cancelled by itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.batch_task import BatchTask
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.worker.batch_execution import BatchExecution
from django_redis_components.taskqueue.worker.execution import cancelled, failure_of
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from django_redis_components.taskqueue.worker.interruption import Run
from django_redis_components.taskqueue.worker.run_events import record_outcome, record_start
from django_redis_components.taskqueue.worker.sharded_fetcher import ShardedFetcher


def is_batch(job: Job) -> bool:
    """Return whether the task of a fetched batch is one here: the code that has enqueued it may be another version."""
    return isinstance(registry.find(job.name), BatchTask)


class RunningCall(NamedTuple):
    """A task of a running batch."""

    job: Job
    run: Run
    execution: BatchExecution


class RunningBatches:
    """The tasks of the running batches of one process. Threads share it: each step on the dict is atomic."""

    def __init__(self, fetcher: Fetcher | ShardedFetcher, using: str) -> None:
        """
        Args:
            using: alias of the connection.
        """
        self._fetcher = fetcher
        self._using = using
        #: By task id and token, until it is settled.
        self._tasks: dict[tuple[str, str], RunningCall] = {}

    def __contains__(self, lease: tuple[str, str]) -> bool:
        return lease in self._tasks

    def jobs(self) -> dict[tuple[str, str], Job]:
        """Return the tasks that are not settled, by id and token."""
        return {lease: task.job for lease, task in list(self._tasks.items())}

    def with_neighbors(self, task_ids: Collection[str]) -> set[str]:
        """Return these ids with those of the tasks that run in a batch with one of them."""
        tasks = list(self._tasks.values())
        runs = [task.run for task in tasks if task.job.id in task_ids]
        return {*task_ids, *[task.job.id for task in tasks if task.run in runs]}

    def run_of(self, task_id: str) -> Run | None:
        """Return the run of a task."""
        return next((task.run for (running, _), task in list(self._tasks.items()) if running == task_id), None)

    def add(self, run: Run, execution: BatchExecution) -> None:
        """Note that a batch starts."""
        for job in (run.job, *run.job.others):
            self._tasks[job.id, job.token] = RunningCall(job, run, execution)
        self._fetcher.mark_others_started(run.job)
        for other in run.job.others:
            record_start(self._using, other)

    def settle(self, run: Run, acks: Sequence[Ack]) -> None:
        """Settle the tasks of a batch that has ended, but those that were cancelled meanwhile."""
        for ack in acks:
            task = self._tasks.pop((ack.id, ack.token), None)
            if task is not None:
                self._settle(task, ack)
        for job in (run.job, *run.job.others):
            self._tasks.pop((job.id, job.token), None)

    def fail(self, run: Run, exc: BaseException) -> None:
        """Settle the tasks of a batch that an error outside of its function has ended."""
        self.settle(run, [failure_of(job, exc) for job in (run.job, *run.job.others)])

    def cancel(self, task_id: str, token: str) -> bool:
        """End a cancelled task of a batch at once; return False if this is none.

        The function continues for the others, and is interrupted with the last one.
        """
        task = self._tasks.pop((task_id, token), None)
        if task is None:
            return False
        is_last = task.execution.cancel(task_id)
        self._settle(task, cancelled(task_id, token))
        if is_last:
            task.run.cancel()
        return True

    def _settle(self, task: RunningCall, ack: Ack) -> None:
        self._fetcher.settle_run(task.job, ack)
        record_outcome(self._using, task.job, ack)
