"""Tasks of groups, and what the next fetches lease."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from django_redis_components.taskqueue import FairShare, TaskResult, task
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.task import Task
from tests.taskqueue.support import new_fetcher
from tests.taskqueue.tasks import note

#: Request numbers of a slot start at 0, so each fetcher needs its own slot.
_slots = itertools.count()
WEIGHTS = {"gold": 3, "silver": 2}


@task(fair="{customer}")
def serve(customer: str, number: int = 0) -> Any:
    return note(f"{customer}{number}")


@task(fair=FairShare("{customer}", weight=lambda customer, number=0: WEIGHTS.get(customer, 1)))
def serve_by_weight(customer: str, number: int = 0) -> Any:
    return note(f"{customer}{number}")


def send(words: str | Iterable[str], what: Task[..., Any, Any] = serve) -> list[TaskResult]:
    """Enqueue a task for each word: its letters are the customer, and the digits behind them the number."""
    listed = words.split() if isinstance(words, str) else words
    return what.enqueue_many([((word.rstrip("0123456789"), int(digits(word) or 0)), {}) for word in listed])


def digits(word: str) -> str:
    return word[len(word.rstrip("0123456789")) :]


def take(want: int = 100, *queues: str, worker: str = "here:1") -> list[str]:
    """Lease tasks in one call; return their words in order."""
    return words_of(new_fetcher(*queues, worker=worker).fetch(f"take{next(_slots)}", want))


def take_singly(count: int) -> list[str]:
    """Lease tasks in calls of one each."""
    return [word for _ in range(count) for word in take(1)]


def words_of(jobs: Iterable[Job]) -> list[str]:
    return ["".join(str(arg) for arg in job.message()[0]) for job in jobs]
