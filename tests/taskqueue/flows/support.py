"""Helpers for tests of flows: states, and the ways in which a task ends without success."""

from __future__ import annotations

import itertools
from typing import Any

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import FlowResult, TaskContext, TaskResult, get_queue, registry
from django_redis_components.taskqueue.run_start import result_of_run
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.control import delete_trash
from django_redis_components.taskqueue.store.job import Job
from tests.support import Store
from tests.taskqueue.support import base_key, end_lease, new_fetcher, recover, work_off
from tests.taskqueue.tasks import echo


def states(flow: FlowResult) -> list[str]:
    """Read the flow; return the states of its tasks."""
    flow.refresh()
    return [result.state for result in flow.results]


_slots = itertools.count()


def start_run(task: Any, worker: str = "here:1", using: str = "default") -> tuple[Job, TaskContext]:
    """Fetch a call of the task; return its job and the context of its run."""
    [job] = new_fetcher(worker=worker).fetch(f"started{next(_slots)}", 1)
    _, context = result_of_run(task, job, using)
    assert context is not None
    return job, context


def has_work(store: Store) -> bool:
    return bool(store.raw.exists(base_key(store, "flow_work")))


def poll(store: Store) -> int:
    """Run rounds of the poller until no flow has work left; return how many."""
    rounds = 0
    while has_work(store) or not rounds:
        recover(prune=not rounds)
        rounds += 1
    return rounds


def make_lucky(store: Store) -> None:
    """Let what failed by itself run with another function, as after a deploy that mends it."""
    for job in get_queue("default").tasks("failed"):
        store.raw.hset(base_key(store, "t", job.id), "n", echo.name)


def fails(store: Store, result: TaskResult) -> str:
    work_off()
    return "failed"


def is_cancelled(store: Store, result: TaskResult) -> str:
    assert result.cancel()
    return "was cancelled"


def loses_its_workers(store: Store, result: TaskResult) -> str:
    new_fetcher(worker="dies:1").fetch("0", 1)
    end_lease(store, result.id)
    assert recover(max_deliveries=1) == [(result.id, "default", "failed")]
    return "failed"


def is_deleted_in_a_bin(store: Store, result: TaskResult) -> str:
    get_queue("default").purge()
    assert run(connections.client(), delete_trash(home(), -1)) == 1
    return "was deleted"


def is_parked_and_deleted(store: Store, result: TaskResult) -> str:
    known, registry.tasks = registry.tasks, {}
    try:
        work_off()
    finally:
        registry.tasks = known
    assert get_queue("default").delete_unregistered() == 1
    return "was deleted"


def expires(store: Store, result: TaskResult) -> str:
    store.raw.hset(base_key(store, "t", result.id), "X", "1 600000")
    work_off()
    return "expired"


#: The ends that a task can come to without having returned anything.
WAYS = [fails, is_cancelled, loses_its_workers, is_deleted_in_a_bin, is_parked_and_deleted, expires]
