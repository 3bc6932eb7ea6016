"""Helpers of the tests of operations: many tasks in a state, and the output of commands."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_redis_components.core import serialization as arguments
from django_redis_components.taskqueue import TaskResult, get_queue
from django_redis_components.taskqueue.failure import describe
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.task import Task
from tests.support import Store
from tests.taskqueue.support import fall_due, new_fetcher, settle_now, work_off
from tests.taskqueue.tasks import fail, note

WEEK_S = 7 * 86_400


def fail_many(count: int, queue: str = "default", **options: Any) -> list[TaskResult]:
    """Enqueue tasks that fail; return their results in order."""
    results = fail.using(queue_name=queue, **options).enqueue_many([((str(number),), {}) for number in range(count)])
    fetcher = new_fetcher(queue, worker="fails:them")
    error = arguments.encode(describe(LookupError("out of order")))
    while jobs := fetcher.fetch("0", 250):
        settle_now(fetcher, *[Ack(job.id, job.token, "failed", error, ttl_ms=WEEK_S * 1_000) for job in jobs])
    return results


def park_many(count: int) -> list[TaskResult]:
    """Enqueue tasks with an unregistered name."""
    stranger: Task[..., Any, Any] = Task(func=note.func, name="unknown.task", declared_options=note.options)
    results = stranger.enqueue_many([((number,), {}) for number in range(count)])
    work_off()
    return results


def counts(queue: str = "default") -> tuple[int, int, int]:
    depth = get_queue(queue).info()
    return depth.ready, depth.failed, depth.unregistered


def ids(results: list[TaskResult]) -> list[str]:
    return [result.id for result in results]


def fill(store: Store, queue: str = "default") -> list[TaskResult]:
    """One waiting task of each kind, in the order in which they are served, and one for later."""
    front = note.using(queue_name=queue).enqueue("front")
    fetcher = new_fetcher(queue, worker="gives:back")
    [job] = fetcher.fetch("0", 1)
    settle_now(fetcher, Ack(job.id, job.token, "requeued"))
    due = note.using(queue_name=queue, run_after=60).enqueue("due")
    fall_due(store, due, queue=queue)
    urgent = note.using(queue_name=queue, priority=5).enqueue("urgent")
    ready = [note.using(queue_name=queue).enqueue(f"ready {number}") for number in range(3)]
    unimportant = note.using(queue_name=queue, priority=-5).enqueue("unimportant")
    later = note.using(queue_name=queue, run_after=3_600).enqueue("later")
    return [front, due, urgent, *ready, unimportant, later]


def redis_command(*words: str) -> str:
    """Run the command here; the value is its standard output."""
    out = io.StringIO()
    call_command("redis", *words, stdout=out, stderr=out if "--json" not in words else io.StringIO())
    return out.getvalue()


def lines(*words: str) -> list[str]:
    return redis_command(*words).splitlines()


def data(*words: str) -> Any:
    return json.loads(redis_command(*words, "--json"))


def refused(*words: str, code: int = 1) -> str:
    with pytest.raises(CommandError) as raised:
        redis_command(*words)
    assert raised.value.returncode == code
    return str(raised.value)
