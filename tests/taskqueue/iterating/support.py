"""Helpers of the tests of `iterate`."""

from __future__ import annotations

from typing import Any

from django_redis_components.taskqueue import TaskContext
from django_redis_components.taskqueue.run_start import result_of_run
from tests.support import Store
from tests.taskqueue.support import end_lease, new_fetcher, recover


def context_of(made: Any, worker: str = "here:1", using: str = "default") -> TaskContext:
    """Lease the next task, and return the context of its run."""
    [job] = new_fetcher(worker=worker, using=using).fetch("0", 1)
    _, context = result_of_run(made, job, using)
    assert context is not None
    return context


def context_after_death(store: Store, made: Any, task_id: str, worker: str = "there:1") -> TaskContext:
    """Let the worker of a task die, and return the context of its next run."""
    end_lease(store, task_id)
    recover()
    return context_of(made, worker)
